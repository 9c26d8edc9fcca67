package workspace

import (
	"bytes"
	"fmt"
)

// A Replacement replaces a text.
type Replacement struct {
	// Old is the text as it stands in the file, New what comes in its place.
	Old string `json:"old_string" jsonschema:"minLength=1" jsonschema_description:"the text to replace, as it stands in the file"`
	New string `json:"new_string" jsonschema_description:"what comes in its place"`
	// All replaces it wherever it stands. By default it must stand there once.
	All bool `json:"replace_all,omitempty" jsonschema_description:"replace it wherever it stands, not only where it is the only one"`
}

// Replace makes replacements in a file, one after the other: all of them, or none and an
// error. It returns how many texts were replaced.
func (w *Workspace) Replace(path string, replacements ...Replacement) (replaced int, err error) {
	err = w.Edit(path, 0, func(data []byte) ([]byte, error) {
		for i, r := range replacements {
			n := bytes.Count(data, []byte(r.Old))
			switch {
			case r.Old == "" || r.Old == r.New:
				return nil, fmt.Errorf("replacement %d: the old and the new text must differ, and the old one not be empty", i+1)
			case n == 0:
				return nil, fmt.Errorf("replacement %d: the old text is not in %q: read the file again", i+1, path)
			case n > 1 && !r.All:
				return nil, fmt.Errorf("replacement %d: the old text stands %d times in %q: give more of what is around it, or replace all", i+1, n, path)
			case len(data)+n*(len(r.New)-len(r.Old)) > DefaultMaxSize:
				return nil, fmt.Errorf("replacement %d: %q would be too large", i+1, path)
			}
			data = bytes.ReplaceAll(data, []byte(r.Old), []byte(r.New))
			replaced += n
		}
		return data, nil
	})
	return replaced, err
}
