package config

import (
	"context"
	"fmt"
	"os"
	"time"
)

// Watch calls back with the file at a path, at once and then whenever it has
// changed, until ctx ends; the result is why it did. It looks at each interval, 0
// being [DefaultInterval]: no event of the operating system tells of all the ways
// in which editors and containers replace files.
//
// A file that cannot be read or is not valid gives its error, and watching goes on.
// Once one has been read, that is told only when it is still the same at the next
// look, so that nobody hears of a file that is just being written. A file of
// variables, or one that a variable refers to, is not watched.
//
// Watch calls back one at a time and waits for each.
func Watch(ctx context.Context, path string, interval time.Duration, changed func(*File, error)) error {
	if interval <= 0 {
		interval = DefaultInterval
	}
	w := &watcher{path: path, changed: changed}
	w.look(time.Now())
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case now := <-ticker.C:
			if ctx.Err() == nil {
				w.look(now)
			}
		}
	}
}

// A watcher knows what it saw: what the file held, or why it could not be read.
type watcher struct {
	path    string
	changed func(*File, error)

	seen   string      // at the last look
	told   string      // when it last called back
	isGood bool        // what was told
	info   os.FileInfo // of the file when it was read, nil when it must be read again
}

// look reads the file, if it may have changed, and tells of it.
func (w *watcher) look(now time.Time) {
	info, err := os.Stat(w.path)
	if err == nil && w.info != nil && os.SameFile(info, w.info) &&
		info.Size() == w.info.Size() && info.ModTime().Equal(w.info.ModTime()) {
		return
	}
	w.info = nil
	if err == nil && now.Sub(info.ModTime()) > unsettled {
		w.info = info
	}
	data, err := readFile(w.path, MaxFile)
	found := "a file: " + string(data)
	if err != nil {
		found = "none: " + err.Error()
	}
	again := found == w.seen
	w.seen = found
	if found == w.told {
		return
	}
	var file *File
	if err != nil {
		err = fmt.Errorf("configuration %s: %w", w.path, err)
	} else {
		file, err = Parse(data, w.path)
	}
	if err != nil && w.isGood && !again {
		w.info = nil
		return
	}
	w.told, w.isGood = found, err == nil
	w.changed(file, err)
}
