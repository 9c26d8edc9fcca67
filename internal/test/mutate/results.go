package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
)

// A result is what the tests say to a mutation.
type result struct {
	ID      string  `json:"id"`
	Source  string  `json:"source"` // checksum of the package's files
	Tests   string  `json:"tests"`  // checksum of the files of its tests
	Outcome string  `json:"outcome"`
	Test    string  `json:"test,omitempty"` // the first test that failed
	Seconds float64 `json:"seconds"`
	kind    string
}

func (r result) String() string {
	switch {
	case r.Outcome == survived:
		return "SURVIVED"
	case r.Test == "":
		return "caught by " + r.Outcome
	}
	return "caught by " + r.Outcome + " in " + r.Test
}

// results are the results in a file, one JSON object a line.
type results struct {
	file  *os.File // nil if none is kept
	known map[string]result
}

// openResults reads a file of results, which may not exist, and opens it for further ones. With
// the name "" it keeps none.
func openResults(name string) (*results, error) {
	saved := &results{known: map[string]result{}}
	if name == "" {
		return saved, nil
	}
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(file)
	for {
		var r result
		err := decoder.Decode(&r)
		if errors.Is(err, io.EOF) {
			saved.file = file
			return saved, nil
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", name, err), file.Close())
		}
		saved.known[r.ID] = r
	}
}

// lookup returns the earlier result of a mutation. It is known only as long as the package is the
// same. Tests that are added later may notice a mutation that survived, and only that.
func (s *results) lookup(m mutation, p *testedPackage) (result, bool) {
	r, ok := s.known[m.id()]
	r.kind = m.kind
	return r, ok && r.Source == p.sourceSum && (r.Outcome != survived || r.Tests == p.testSum)
}

func (s *results) add(r result) error {
	if s.file == nil {
		return nil
	}
	return json.NewEncoder(s.file).Encode(r)
}

func (s *results) close() error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}

// writeTable writes the number of results of each kind, and returns the percentage of mutations
// that were caught.
func writeTable(w io.Writer, list []result) (score float64) {
	const total = "total"
	counts := map[string]map[string]int{total: {}}
	for _, r := range list {
		if counts[r.kind] == nil {
			counts[r.kind] = map[string]int{}
		}
		counts[r.kind][r.Outcome]++
		counts[total][r.Outcome]++
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	outcomes := append(caughtBy(), survived)
	fmt.Fprintf(table, "\nkind\t%s\tscore\t\n", strings.Join(outcomes, "\t"))
	for _, kind := range append(kinds(), total) {
		all := 0
		fmt.Fprintf(table, "%s\t", kind)
		for _, outcome := range outcomes {
			all += counts[kind][outcome]
			fmt.Fprintf(table, "%d\t", counts[kind][outcome])
		}
		if all == 0 {
			fmt.Fprint(table, "-\t\n")
			continue
		}
		score = 100 * float64(all-counts[kind][survived]) / float64(all)
		fmt.Fprintf(table, "%.1f %%\t\n", score)
	}
	_ = table.Flush()
	return score
}
