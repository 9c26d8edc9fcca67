package memory

import (
	"context"
	"slices"
	"strings"
	"sync"
)

// A mapStore is a [Store] in the memory of the process.
type mapStore struct {
	limits *Limits

	mu      sync.RWMutex
	records map[Collection][]Record // sorted by key, never empty
	owned   map[string]int64        // bytes by owner, never 0
	total   int64
}

var _ Store = (*mapStore)(nil)

// InMemory returns an empty store that lasts as long as the process. nil means the default
// limits.
func InMemory(limits *Limits) Store {
	m := &mapStore{records: map[Collection][]Record{}, owned: map[string]int64{}}
	if limits != nil {
		m.limits = new(*limits)
	}
	return m
}

// Save implements [Store].
func (m *mapStore) Save(ctx context.Context, in Collection, record Record) error {
	// A small string may be part of a large message, which must not be retained with it.
	in = Collection{Owner: strings.Clone(in.Owner), Kind: in.Kind, User: strings.Clone(in.User)}
	record = Record{Key: strings.Clone(record.Key), Value: strings.Clone(record.Value)}

	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	records := m.records[in]
	at, found := position(records, record.Key)
	more, bytes := 1, Size(in, record)
	if found {
		more, bytes = 0, bytes-Size(in, records[at])
	}
	have := Usage{Records: len(records), OwnerBytes: m.owned[in.Owner], TotalBytes: m.total}
	if err := m.limits.Admit(in, have, more, bytes); err != nil {
		return err
	}
	if found {
		records[at] = record
	} else {
		m.records[in] = slices.Insert(records, at, record)
	}
	m.count(in.Owner, bytes)
	return nil
}

// Load implements [Store].
func (m *mapStore) Load(ctx context.Context, in Collection, key string) (string, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if err := ctx.Err(); err != nil {
		return "", err
	}
	records := m.records[in]
	at, found := position(records, key)
	if !found {
		return "", ErrNotFound
	}
	return records[at].Value, nil
}

// Delete implements [Store].
func (m *mapStore) Delete(ctx context.Context, in Collection, key string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return false, err
	}
	records := m.records[in]
	at, found := position(records, key)
	if !found {
		return false, nil
	}
	m.count(in.Owner, -Size(in, records[at]))
	records = slices.Delete(records, at, at+1)
	switch {
	case len(records) == 0:
		delete(m.records, in)
	case len(records) <= cap(records)/4:
		m.records[in] = slices.Clone(records) // to release the unused capacity
	default:
		m.records[in] = records
	}
	return true, nil
}

// List implements [Store].
func (m *mapStore) List(ctx context.Context, in Collection, query Query) ([]Record, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	records := m.records[in]
	first, _ := position(records, query.Prefix)
	if after, found := position(records, query.After); found {
		first = max(first, after+1)
	} else {
		first = max(first, after)
	}
	var selected []Record
	for _, record := range records[first:] {
		if !strings.HasPrefix(record.Key, query.Prefix) || query.Limit > 0 && len(selected) == query.Limit {
			break
		}
		if !query.Values {
			record.Value = ""
		}
		selected = append(selected, record)
	}
	return selected, nil
}

// count adds bytes to the usage of an owner.
func (m *mapStore) count(owner string, bytes int64) {
	m.total += bytes
	m.owned[owner] += bytes
	if m.owned[owner] == 0 {
		delete(m.owned, owner)
	}
}

// position returns the index at which the record with the key is, or would be inserted.
func position(records []Record, key string) (at int, found bool) {
	return slices.BinarySearchFunc(records, key, func(r Record, key string) int { return strings.Compare(r.Key, key) })
}
