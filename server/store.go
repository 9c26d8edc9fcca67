package server

import (
	"sync"

	"github.com/dovetail-go/dovetail/transport/store"
)

// A serverStore is the store of tasks and events: Options.Store, or a private store in memory, which is created when it
// is first needed.
type serverStore struct {
	shared store.Store // nil without Options.Store

	once    sync.Once
	private store.Store
}

func (r *serverStore) get() store.Store {
	if r.shared != nil {
		return r.shared
	}
	return r.inMemory()
}

func (r *serverStore) inMemory() store.Store {
	r.once.Do(func() {
		private, err := store.NewMemory(nil)
		if err != nil {
			panic(err) // the defaults are valid
		}
		r.private = private
	})
	return r.private
}

// close closes the private store, which is made even if it was not needed: a later operation then fails with
// [store.ErrClosed].
func (r *serverStore) close() error {
	if r.shared != nil {
		return nil
	}
	return r.inMemory().Close()
}
