package main

import "slices"

// allCases returns the cases in the order of the table.
func allCases() []*Case {
	return slices.Concat(injectionCases(), poisoningCases(), argumentCases(), leakCases(), deputyCases(), memoryCases(),
		squattingCases(), journalCases(), addressCases(), loadCases(), formCases(), covertCases(), advisoryCases())
}
