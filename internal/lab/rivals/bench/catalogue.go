package main

import "fmt"

// coldDescription describes every of the tools.
const coldDescription = "One of many: it gives back its arguments."

// coldName is the name of tool i.
func coldName(i int) string { return fmt.Sprintf("tool_%04d", i) }

// A catalogue is what a list of tools has to hold: w.Tools tools, and nothing else.
type catalogue map[string]bool

// newCatalogue is for Kind List, whose servers do not have echo.
func newCatalogue(w Work) catalogue {
	c := make(catalogue, w.Tools)
	for i := range w.Tools {
		c[coldName(i)] = true
	}
	return c
}

// check checks a list of n tools; name and described say of each how it is called and
// whether it has an input schema.
func (c catalogue) check(n int, tool func(i int) (name string, described bool)) error {
	if n != len(c) {
		return fmt.Errorf("%d tools, want %d", n, len(c))
	}
	for i := range n {
		if name, described := tool(i); !c[name] || !described {
			return fmt.Errorf("tool %q, described: %v", name, described)
		}
	}
	return nil
}
