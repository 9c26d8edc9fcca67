package main

// A Result is what the contests came out as.
type Result struct {
	Machine  Machine         `json:"machine"`
	Contests []ContestResult `json:"contests"`
	Verdicts []Verdict       `json:"goals"`
}

// A ContestResult is the result of one contest.
type ContestResult struct {
	Name    string        `json:"name"`
	Table   string        `json:"table"`
	Entries []EntryResult `json:"entries"`
}

// An EntryResult has a sample for each round. There are none where the peer has no such
// thing, and where it failed.
type EntryResult struct {
	Name    string   `json:"name"`
	Median  Sample   `json:"median"`
	Samples []Sample `json:"rounds"`
	Failure string   `json:"failure,omitzero"`
}

// entry is nil for one that there is not.
func (c *ContestResult) entry(name string) *EntryResult {
	for i := range c.Entries {
		if c.Entries[i].Name == name {
			return &c.Entries[i]
		}
	}
	return nil
}

// ratios compare the measure of an entry with the best of others, round by round. There
// are none if none of them has samples.
func (c *ContestResult) ratios(name string, against []string, m Measure) []float64 {
	own := c.entry(name)
	if own == nil {
		return nil
	}
	var ratios []float64
	for round, s := range own.Samples {
		best, found := 0., false
		for _, rival := range against {
			e := c.entry(rival)
			if e == nil || round >= len(e.Samples) {
				continue
			}
			value := m.of(e.Samples[round])
			if !found || m.better(value, best) {
				best, found = value, true
			}
		}
		if found && best > 0 {
			ratios = append(ratios, m.of(s)/best)
		}
	}
	return ratios
}

func (m Measure) of(s Sample) float64 {
	switch m {
	case Time:
		return 1 / s.Rate
	case Allocs:
		return s.Allocs
	case Memory:
		return s.Bytes
	}
	return s.Rate
}

// better says whether more or less of it is.
func (m Measure) better(a, b float64) bool {
	if m == Rate {
		return a > b
	}
	return a < b
}
