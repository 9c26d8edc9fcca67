package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/bridge/config"
)

// follow applies the configuration and the lock whenever their files change, until ctx ends. A file
// that is not valid changes nothing.
func (h *hub) follow(ctx context.Context) {
	var following sync.WaitGroup
	defer following.Wait()
	following.Go(func() { h.followLock(ctx) })
	following.Go(func() { h.callers.followKeys(ctx) })
	for _, file := range h.policies {
		following.Go(func() { h.followPolicy(ctx, file) })
	}
	first := true
	_ = config.Watch(ctx, h.opts.config, h.opts.reload, func(file *config.File, err error) {
		unchanged := first && reflect.DeepEqual(file, h.file)
		first = false
		if unchanged { // since the servers were made
			return
		}
		if file == nil {
			h.events.Error("the new configuration is not valid and was not applied", "error", err)
			return
		}
		if err := h.bridge.Update(h.configs(ctx, file, err)...); err != nil {
			h.events.Error("the new configuration was not applied", "error", err)
			return
		}
		h.events.Info("the new configuration was applied", "file", file.Name)
	})
}

// checkInterval is how often the files of the lock and of the policy are checked.
const checkInterval = time.Second

// followLock reads the lock file whenever it changes.
func (h *hub) followLock(ctx context.Context) {
	if h.lock == nil {
		return
	}
	followFile(ctx, h.opts.lock, h.locked, func() {
		if err := h.lock.Reload(); err != nil && !errors.Is(err, fs.ErrNotExist) {
			h.events.Error("the lock file was not read", "error", err)
			return
		}
		h.events.Info("the lock file was read again", "file", h.opts.lock)
	})
}

// followPolicy reads a policy whenever its file changes. A policy that is not valid is not applied.
func (h *hub) followPolicy(ctx context.Context, file *policyFile) {
	if file.path == "" {
		return
	}
	followFile(ctx, file.path, file.seen, func() {
		inForce, err := readPolicy(file.path, h.opts.launchUnasked, h.events)
		if err != nil {
			h.events.Error("the new policy is not valid and was not applied", "error", err)
			refusing := *file.inForce.Load()
			refusing.Refused = err
			file.inForce.Store(&refusing)
			return
		}
		file.inForce.Store(inForce)
		h.events.Info("the new policy was applied", "file", file.path)
	})
}

// followFile calls changed whenever a file is no longer as it was seen, until ctx ends.
func followFile(ctx context.Context, path, seen string, changed func()) {
	ticker := time.NewTicker(checkInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if now := modified(path); now != seen {
			seen = now
			changed()
		}
	}
}

// modified returns the size and the time of the last change of a file.
func modified(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	return fmt.Sprint(info.Size(), info.ModTime().UnixNano())
}
