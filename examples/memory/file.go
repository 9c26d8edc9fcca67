package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/dovetail-go/dovetail/server/memory"
)

// A fileStore keeps all in one JSON file, which it reads for each operation and writes
// anew for each change: a person may edit the file, and a memory of a few megabytes is
// as much as it is good for.
type fileStore struct {
	path   string
	limits *memory.Limits
	mu     sync.RWMutex
}

var _ memory.Store = (*fileStore)(nil)

// openFile looks whether the file can be read, if it is there.
func openFile(path string, limits *memory.Limits) (*fileStore, error) {
	s := &fileStore{path: path, limits: limits}
	_, err := s.read()
	return s, err
}

func (s *fileStore) Save(ctx context.Context, in memory.Collection, record memory.Record) error {
	return s.change(ctx, func(d document) (bool, error) {
		have := d.usage(in.Owner)
		records := d.records(in)
		have.Records = len(records)
		more, size := 1, memory.Size(in, record)
		if old, there := records[record.Key]; there {
			more, size = 0, size-memory.Size(in, memory.Record{Key: record.Key, Value: old})
		}
		if err := s.limits.Admit(in, have, more, size); err != nil {
			return false, err
		}
		d.collection(in)[record.Key] = record.Value
		return true, nil
	})
}

func (s *fileStore) Load(ctx context.Context, in memory.Collection, key string) (string, error) {
	records, err := s.look(ctx, in)
	if err != nil {
		return "", err
	}
	value, there := records[key]
	if !there {
		return "", memory.ErrNotFound
	}
	return value, nil
}

func (s *fileStore) Delete(ctx context.Context, in memory.Collection, key string) (deleted bool, err error) {
	err = s.change(ctx, func(d document) (bool, error) {
		deleted = d.delete(in, key)
		return deleted, nil
	})
	return deleted && err == nil, err
}

func (s *fileStore) List(ctx context.Context, in memory.Collection, query memory.Query) ([]memory.Record, error) {
	records, err := s.look(ctx, in)
	if err != nil {
		return nil, err
	}
	var list []memory.Record
	for _, key := range slices.Sorted(maps.Keys(records)) {
		if !strings.HasPrefix(key, query.Prefix) || key <= query.After {
			continue
		}
		if query.Limit > 0 && len(list) == query.Limit {
			break
		}
		record := memory.Record{Key: key}
		if query.Values {
			record.Value = records[key]
		}
		list = append(list, record)
	}
	return list, nil
}

// look returns a collection as it is in the file now.
func (s *fileStore) look(ctx context.Context, in memory.Collection) (map[string]string, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d, err := s.read()
	return d.records(in), err
}

// change writes what do has changed, if it says so.
func (s *fileStore) change(ctx context.Context, do func(d document) (bool, error)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	d, err := s.read()
	if err != nil {
		return err
	}
	if changed, err := do(d); err != nil || !changed {
		return err
	}
	return s.write(d)
}

func (s *fileStore) read() (document, error) {
	d := document{}
	text, err := os.ReadFile(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return d, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, fmt.Errorf("%s: %w", s.path, err)
	}
	return d, nil
}

// write puts a new file in the place of the old one, which stays whole until then. Only
// its user can read it.
func (s *fileStore) write(d document) error {
	text, err := json.MarshalIndent(d, "", "\t")
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(s.path), filepath.Base(s.path)+".*")
	if err != nil {
		return err
	}
	_, err = file.Write(append(text, '\n'))
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), s.path)
	}
	if err != nil {
		os.Remove(file.Name())
	}
	return err
}
