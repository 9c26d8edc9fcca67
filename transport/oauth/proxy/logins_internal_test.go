package proxy

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/internal/state"
	"github.com/dovetail-go/dovetail/transport/store"
)

// The format of the record of a login stays as it is, because processes of different versions share it.
func TestFormatOfLoginUses(t *testing.T) {
	const golden = `{"uses":3,"ended":true}`
	if got, err := json.Marshal(loginUses{Uses: 3, Ended: true}); err != nil || string(got) != golden {
		t.Errorf("wrote %s, want %s; %v", got, golden, err)
	}
}

// When the logins of a proxy without a store have filled its memory, it forgets them, and people can log in.
func TestProxyForgetsLogins(t *testing.T) {
	for name, shared := range map[string]bool{"no store": false, "a store": true} {
		t.Run(name, func(t *testing.T) {
			full, err := store.NewMemory(&store.MemoryOptions{Bytes: 10_000})
			if err != nil {
				t.Fatal(err)
			}
			defer full.Close()
			p := &Proxy{options: &Options{Issuer: "https://issuer.example", Logger: slog.New(slog.DiscardHandler)}}
			if shared {
				p.options.Store = full
			}
			logins := state.NewRecords[loginUses](full, nil)
			p.logins.Store(&logins)
			end := time.Now().Add(defaultLoginLife)
			var last error
			for i := 0; i < 200 && last == nil; i++ {
				_, last = p.spend(t.Context(), &grant{Login: rand.Text(), Expires: end})
			}
			if full := errors.Is(last, store.ErrFull); full != shared {
				t.Errorf("the last login: %v", last)
			}
		})
	}
}
