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

// A fileStore keeps everything in one JSON file. It reads the file for each operation and
// writes it for each change, so that a person may edit it. It is meant for a few megabytes.
type fileStore struct {
	path   string
	limits *memory.Limits
	mu     sync.RWMutex
}

var _ memory.Store = (*fileStore)(nil)

// openFile returns an error if the file exists and cannot be read.
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

// look reads a collection.
func (s *fileStore) look(ctx context.Context, in memory.Collection) (map[string]string, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d, err := s.read()
	return d.records(in), err
}

// change runs do and writes the document if do reports a change.
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

// write replaces the file atomically. Only the user can read it.
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

// A document is the content of the file, by owner.
type document map[string]*belongings

// belongings are the records of one owner: conversations by id, facts by user and key.
type belongings struct {
	Conversations map[string]string            `json:"conversations,omitempty"`
	Facts         map[string]map[string]string `json:"facts,omitempty"`
}

// records returns the records of a collection, or nil.
func (d document) records(in memory.Collection) map[string]string {
	owned := d[in.Owner]
	switch {
	case owned == nil:
		return nil
	case in.Kind == memory.Conversations:
		return owned.Conversations
	default:
		return owned.Facts[in.User]
	}
}

// collection returns the records of a collection and creates it if it does not exist.
func (d document) collection(in memory.Collection) map[string]string {
	if records := d.records(in); records != nil {
		return records
	}
	owned := d[in.Owner]
	if owned == nil {
		owned = &belongings{}
		d[in.Owner] = owned
	}
	records := map[string]string{}
	if in.Kind == memory.Conversations {
		owned.Conversations = records
		return records
	}
	if owned.Facts == nil {
		owned.Facts = map[string]map[string]string{}
	}
	owned.Facts[in.User] = records
	return records
}

// delete reports whether the record existed.
func (d document) delete(in memory.Collection, key string) bool {
	records := d.records(in)
	if _, there := records[key]; !there {
		return false
	}
	delete(records, key)
	if len(records) == 0 && in.Kind == memory.Facts {
		delete(d[in.Owner].Facts, in.User)
	}
	return true
}

// usage returns the bytes in use.
func (d document) usage(owner string) (have memory.Usage) {
	for name, owned := range d {
		if owned == nil {
			continue
		}
		bytes := sizeOf(memory.Collection{Owner: name, Kind: memory.Conversations}, owned.Conversations)
		for user, facts := range owned.Facts {
			bytes += sizeOf(memory.Collection{Owner: name, Kind: memory.Facts, User: user}, facts)
		}
		have.TotalBytes += bytes
		if name == owner {
			have.OwnerBytes = bytes
		}
	}
	return have
}

func sizeOf(in memory.Collection, records map[string]string) (bytes int64) {
	for key, value := range records {
		bytes += memory.Size(in, memory.Record{Key: key, Value: value})
	}
	return bytes
}
