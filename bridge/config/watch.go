package config

import (
	"context"
	"fmt"
	"os"
	"time"
)

// clockPrecision is the age from which the modification time of a file proves that it has not
// changed since: clocks of file systems are coarse.
const clockPrecision = 2 * time.Second

// Watch calls changed with the content of a file now, and whenever it changes, until ctx ends.
// It returns the cause of ctx. Watch checks the file every interval, or every second if interval is
// 0: notifications of the operating system miss some of the ways in which editors and containers
// replace files.
//
// If the file cannot be read or is not valid, changed gets the error, and Watch continues. If only
// entries of servers are not valid, changed also gets the file with the other servers; see [Parse]. An
// error after a valid content is reported only if the next check finds the same, since a
// program may be writing the file. Files that the configuration refers to are not watched.
//
// Calls of changed do not overlap.
func Watch(ctx context.Context, path string, interval time.Duration, changed func(*File, error)) error {
	if interval <= 0 {
		interval = time.Second
	}
	w := &watcher{path: path, changed: changed}
	w.check(time.Now())
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case now := <-ticker.C:
			if ctx.Err() == nil {
				w.check(now)
			}
		}
	}
}

// A watcher remembers the content of the file, or why it could not be read.
type watcher struct {
	path    string
	changed func(*File, error)

	seen     string      // at the last check
	reported string      // at the last call of changed
	isValid  bool        // the reported content
	info     os.FileInfo // when the file was read; nil if it must be read again
}

func (w *watcher) check(now time.Time) {
	info, err := os.Stat(w.path)
	if err == nil && w.info != nil && os.SameFile(info, w.info) &&
		info.Size() == w.info.Size() && info.ModTime().Equal(w.info.ModTime()) {
		return
	}
	w.info = nil
	if err == nil && now.Sub(info.ModTime()) > clockPrecision {
		w.info = info
	}
	data, err := readFile(w.path, maxFile)
	found := "content: " + string(data)
	if err != nil {
		found = "error: " + err.Error()
	}
	seenBefore := found == w.seen
	w.seen = found
	if found == w.reported {
		return
	}
	var file *File
	if err != nil {
		err = fmt.Errorf("configuration %s: %w", w.path, err)
	} else {
		file, err = Parse(data, w.path)
	}
	if err != nil && w.isValid && !seenBefore {
		w.info = nil
		return
	}
	w.reported, w.isValid = found, err == nil
	w.changed(file, err)
}
