package memorytest_test

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/dovetail-go/dovetail/server/memory"
)

// A faulty store does one operation in a way of its own, and the others as a good one.
type faulty struct {
	*memory.MapStore
	save   func(s *memory.MapStore, ctx context.Context, in memory.Collection, record memory.Record) error
	load   func(s *memory.MapStore, ctx context.Context, in memory.Collection, key string) (string, error)
	delete func(s *memory.MapStore, ctx context.Context, in memory.Collection, key string) (bool, error)
	list   func(s *memory.MapStore, ctx context.Context, in memory.Collection, query memory.Query) ([]memory.Record, error)
	close  func() error
}

func (f *faulty) Save(ctx context.Context, in memory.Collection, record memory.Record) error {
	if f.save != nil {
		return f.save(f.MapStore, ctx, in, record)
	}
	return f.MapStore.Save(ctx, in, record)
}

func (f *faulty) Load(ctx context.Context, in memory.Collection, key string) (string, error) {
	if f.load != nil {
		return f.load(f.MapStore, ctx, in, key)
	}
	return f.MapStore.Load(ctx, in, key)
}

func (f *faulty) Delete(ctx context.Context, in memory.Collection, key string) (bool, error) {
	if f.delete != nil {
		return f.delete(f.MapStore, ctx, in, key)
	}
	return f.MapStore.Delete(ctx, in, key)
}

func (f *faulty) List(ctx context.Context, in memory.Collection, query memory.Query) ([]memory.Record, error) {
	if f.list != nil {
		return f.list(f.MapStore, ctx, in, query)
	}
	return f.MapStore.List(ctx, in, query)
}

func (f *faulty) Close() error {
	if f.close != nil {
		return f.close()
	}
	return nil
}

// renaming is a store that takes one record for another: it keeps them under other
// names.
func renaming(rename func(in memory.Collection, key string) (memory.Collection, string)) faulty {
	return faulty{
		save: func(s *memory.MapStore, ctx context.Context, in memory.Collection, record memory.Record) error {
			in, record.Key = rename(in, record.Key)
			return s.Save(ctx, in, record)
		},
		load: func(s *memory.MapStore, ctx context.Context, in memory.Collection, key string) (string, error) {
			in, key = rename(in, key)
			return s.Load(ctx, in, key)
		},
		delete: func(s *memory.MapStore, ctx context.Context, in memory.Collection, key string) (bool, error) {
			in, key = rename(in, key)
			return s.Delete(ctx, in, key)
		},
		list: func(s *memory.MapStore, ctx context.Context, in memory.Collection, query memory.Query) ([]memory.Record, error) {
			in, _ = rename(in, "")
			return s.List(ctx, in, query)
		},
	}
}

// keeping is a store that changes values, or the way they are kept.
func keeping(change func(old, value string) string) faulty {
	return faulty{save: func(s *memory.MapStore, ctx context.Context, in memory.Collection, record memory.Record) error {
		old, _ := s.Load(ctx, in, record.Key)
		record.Value = change(old, record.Value)
		return s.Save(ctx, in, record)
	}}
}

// listing is a store that changes what a query asks for, or what it gives.
func listing(ask func(*memory.Query), give func([]memory.Record, memory.Query) []memory.Record) faulty {
	return faulty{list: func(s *memory.MapStore, ctx context.Context, in memory.Collection, query memory.Query) ([]memory.Record, error) {
		asked := query
		if ask != nil {
			ask(&asked)
		}
		records, err := s.List(ctx, in, asked)
		if err == nil && give != nil {
			records = give(records, query)
		}
		return records, err
	}}
}

// byNumber lists short keys first.
func byNumber(records []memory.Record, _ memory.Query) []memory.Record {
	slices.SortStableFunc(records, func(a, b memory.Record) int { return len(a.Key) - len(b.Key) })
	return records
}

// byPattern takes a prefix for a pattern of SQL's LIKE.
func byPattern(records []memory.Record, query memory.Query) []memory.Record {
	if strings.ContainsAny(query.Prefix, "%_") {
		return records
	}
	return slices.DeleteFunc(records, func(r memory.Record) bool { return !strings.HasPrefix(r.Key, query.Prefix) })
}

// endless forgets that contexts end.
func endless() faulty {
	return faulty{load: func(s *memory.MapStore, ctx context.Context, in memory.Collection, key string) (string, error) {
		return s.Load(context.WithoutCancel(ctx), in, key)
	}}
}

// asNumber keeps numbers as numbers, as columns without a type do.
func asNumber(_, value string) string {
	if number, err := strconv.ParseFloat(value, 64); err == nil {
		return strconv.FormatFloat(number, 'g', -1, 64)
	}
	return value
}
