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

// Watch tells the clients of a server that subscribed to resources when these change,
// until ctx ends or stop is called, which waits for that. It looks at once, and then
// every interval, by default [DefaultInterval], for files that come, go, or have another
// time of modification or size. A file's URI is told as updated then, and that of its
// directory's listing when files come or go.
//
// entries are what [File], [Directory] and [FS] have made; others are ignored. It is an
// error if there is nothing to look at, or the first look fails. When a later one
// fails, nothing is told until one succeeds.
func Watch(ctx context.Context, s *server.Server, interval time.Duration, entries ...*server.Entry) (stop func(), err error) {
	w := &watch{server: s}
	for _, entry := range entries {
		watched, ok := entry.Metadata[watchedKey].(*watched)
		if !ok {
			continue
		}
		files, err := watched.look(ctx)
		if err != nil {
			return nil, err
		}
		w.seen = append(w.seen, seen{watched, files})
	}
	if len(w.seen) == 0 {
		return nil, errors.New("nothing to watch: none of the entries is of files")
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.run(ctx, cmp.Or(max(interval, 0), DefaultInterval))
	}()
	return func() {
		cancel()
		<-ended
	}, nil
}

// watchedKey is the key of an entry's *watched in its metadata.
const watchedKey = "github.com/dovetail-go/dovetail/server/resources.watched"

// watched is what Watch needs to know of an entry: how its files are looked at.
type watched struct {
	list     string // the URI of the listing, "" if there is none
	readable bool   // the files have URIs of their own
	look     func(context.Context) (map[string]stamp, error)
}

func withWatched(e *server.Entry, w *watched) *server.Entry {
	with := *e
	with.Metadata = maps.Clone(e.Metadata)
	if with.Metadata == nil {
		with.Metadata = make(map[string]any, 1)
	}
	with.Metadata[watchedKey] = w
	return &with
}

// A stamp is another when a file has changed.
type stamp struct {
	modified int64
	size     int64
}

func stampOf(info fs.FileInfo) stamp { return stamp{info.ModTime().UnixNano(), info.Size()} }

type watch struct {
	server *server.Server
	seen   []seen
}

// seen are the files of an entry, by URI, as they were at the last look.
type seen struct {
	entry *watched
	files map[string]stamp
}

func (w *watch) run(ctx context.Context, interval time.Duration) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for i := range w.seen {
			w.again(ctx, &w.seen[i])
		}
	}
}

// again looks at the files of an entry, and tells what is different.
func (w *watch) again(ctx context.Context, last *seen) {
	files, err := last.entry.look(ctx)
	if err != nil {
		return
	}
	came := 0
	for uri, stamp := range files {
		before, there := last.files[uri]
		if !there {
			came++
		}
		if !there || before != stamp {
			w.tell(last.entry, uri)
		}
	}
	gone := len(last.files) + came - len(files)
	if gone > 0 {
		for uri := range last.files {
			if _, there := files[uri]; !there {
				w.tell(last.entry, uri)
			}
		}
	}
	if came+gone > 0 && last.entry.list != "" {
		w.server.ResourceUpdated(last.entry.list)
	}
	last.files = files
}

func (w *watch) tell(entry *watched, uri string) {
	if entry.readable {
		w.server.ResourceUpdated(uri)
	}
}
