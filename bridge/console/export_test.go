package console

import "testing"

// Rows returns the rows as pages get them.
func (r *Recorder) Rows() []shownRow {
	rows, _ := r.changedSince(0)
	return rows
}

// Call returns a call as operators get it.
func (r *Recorder) Call(t testing.TB, id uint64) *shownCall {
	t.Helper()
	call, _, _, err := r.call(id, false)
	if err != nil {
		t.Fatal(err)
	}
	return call
}

// ContentSize returns how many bytes of contents are kept.
func (r *Recorder) ContentSize() int { return r.kept().Bytes }

// Names returns the names of the page's own files.
func Names() []string {
	entries, err := web.ReadDir("web")
	if err != nil {
		panic(err) // impossible: the files are embedded
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}
