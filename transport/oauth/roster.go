package oauth

import (
	"slices"
	"sync"
)

// A roster has something for each of many names. When there are too many, it forgets the
// oldest that nobody has.
type roster[V any] struct {
	most int
	make func(name string) V

	mu    sync.Mutex
	names []string // the oldest first
	held  map[string]*holding[V]
}

type holding[V any] struct {
	value V
	users int
}

func newRoster[V any](most int, of func(name string) V) *roster[V] {
	return &roster[V]{most: most, make: of, held: make(map[string]*holding[V])}
}

// take is what there is for a name: the same for all, until the last has dropped it and
// others have come.
func (r *roster[V]) take(name string) (value V, drop func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	one := r.held[name]
	if one == nil {
		r.makeRoom()
		one = &holding[V]{value: r.make(name)}
		r.held[name] = one
		r.names = append(r.names, name)
	}
	one.users++
	return one.value, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		one.users--
	}
}

func (r *roster[V]) makeRoom() {
	if len(r.names) < r.most {
		return
	}
	i := slices.IndexFunc(r.names, func(name string) bool { return r.held[name].users == 0 })
	if i < 0 {
		return // as many as are at work
	}
	delete(r.held, r.names[i])
	r.names = slices.Delete(r.names, i, i+1)
}
