package resources

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"time"

	"github.com/dovetail-go/dovetail/server"
)

// Watch notifies clients that have subscribed to resources when the files of these resources
// change. It checks the files every interval, 0 meaning 2 s, for their existence,
// modification time and size. The listing of a directory changes when files are added or
// removed.
//
// entries are the results of [File], [Directory] and [FS]; others are ignored. The error says
// that there are no such entries, or why the first check has failed. A later check that fails is
// skipped. Watch ends with ctx or when stop is called; stop waits for the end.
func Watch(ctx context.Context, s *server.Server, interval time.Duration, entries ...*server.Entry) (stop func(), err error) {
	w := &watcher{server: s}
	for _, entry := range entries {
		set, ok := entry.Metadata[fileSetKey].(*fileSet)
		if !ok {
			continue
		}
		files, err := set.scan(ctx)
		if err != nil {
			return nil, err
		}
		w.watched = append(w.watched, watchedSet{set, files})
	}
	if len(w.watched) == 0 {
		return nil, errors.New("nothing to watch: none of the entries is of files")
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.run(ctx, cmp.Or(max(interval, 0), defaultInterval))
	}()
	return func() {
		cancel()
		<-done
	}, nil
}

// fileSetKey is the key of an entry's *fileSet in its metadata.
const fileSetKey = "github.com/dovetail-go/dovetail/server/resources.fileSet"

// A fileSet is the set of files behind an entry, for [Watch].
type fileSet struct {
	listing  string // the URI of the listing, or empty
	readable bool   // whether the files have URIs
	scan     func(context.Context) (map[string]version, error)
}

// withFileSet returns a copy of an entry with set in its metadata.
func withFileSet(e *server.Entry, set *fileSet) *server.Entry {
	with := *e
	with.Metadata = maps.Clone(e.Metadata)
	if with.Metadata == nil {
		with.Metadata = make(map[string]any, 1)
	}
	with.Metadata[fileSetKey] = set
	return &with
}

// A version differs after a file has changed.
type version struct {
	modified int64
	size     int64
}

func versionOf(info fs.FileInfo) version { return version{info.ModTime().UnixNano(), info.Size()} }

type watcher struct {
	server  *server.Server
	watched []watchedSet
}

// A watchedSet has the files of the last check, by URI.
type watchedSet struct {
	*fileSet
	files map[string]version
}

func (w *watcher) run(ctx context.Context, interval time.Duration) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for i := range w.watched {
			w.poll(ctx, &w.watched[i])
		}
	}
}

// poll scans a set and notifies subscribers of the differences to the last check.
func (w *watcher) poll(ctx context.Context, last *watchedSet) {
	files, err := last.scan(ctx)
	if err != nil {
		return
	}
	listingChanged := false
	changed := func(uri string, isListingChange bool) {
		listingChanged = listingChanged || isListingChange
		if last.readable {
			w.server.ResourceUpdated(uri)
		}
	}
	for uri, version := range files {
		if before, existed := last.files[uri]; !existed || before != version {
			changed(uri, !existed)
		}
	}
	for uri := range last.files {
		if _, exists := files[uri]; !exists {
			changed(uri, true)
		}
	}
	if listingChanged && last.listing != "" {
		w.server.ResourceUpdated(last.listing)
	}
	last.files = files
}
