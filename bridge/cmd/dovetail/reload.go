package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"time"

	"github.com/dovetail-go/dovetail/bridge/config"
)

// follow applies the configuration and the lock whenever their files change, until ctx ends. A file
// that is not valid changes nothing.
func (h *hub) follow(ctx context.Context) {
	locked := make(chan struct{})
	go func() {
		defer close(locked)
		h.followLock(ctx)
	}()
	first := true
	_ = config.Watch(ctx, h.opts.config, h.opts.reload, func(file *config.File, err error) {
		unchanged := first && reflect.DeepEqual(file, h.file)
		first = false
		if unchanged { // since the servers were made
			return
		}
		if file == nil {
			h.logger.Error("the new configuration is not valid and was not applied", "error", err)
			return
		}
		if err := h.bridge.Update(h.configs(ctx, file, err)...); err != nil {
			h.logger.Error("the new configuration was not applied", "error", err)
			return
		}
		h.logger.Info("the new configuration was applied", "file", file.Name)
	})
	<-locked
}

// lockInterval is how often the lock file is checked.
const lockInterval = time.Second

// followLock reads the lock file whenever it changes.
func (h *hub) followLock(ctx context.Context) {
	if h.lock == nil {
		return
	}
	ticker := time.NewTicker(lockInterval)
	defer ticker.Stop()
	seen := h.locked
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := modified(h.opts.lock)
		if now == seen {
			continue
		}
		seen = now
		if err := h.lock.Reload(); err != nil && !errors.Is(err, fs.ErrNotExist) {
			h.logger.Error("the lock file was not read", "error", err)
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
