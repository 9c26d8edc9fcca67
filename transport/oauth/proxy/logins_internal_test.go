package proxy

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/transport/store"
)

// The format of the record of a login stays as it is, because processes of different versions share it.
func TestFormatOfLoginUses(t *testing.T) {
	const golden = `{"uses":3,"ended":true}`
	if got, err := json.Marshal(loginUses{Uses: 3, Ended: true}); err != nil || string(got) != golden {
		t.Errorf("wrote %s, want %s; %v", got, golden, err)
	}
}

// spendAll uses the codes of n logins.
func spendAll(t *testing.T, kv store.KV, inMemory, n int) (*Proxy, []grant) {
	t.Helper()
	p := &Proxy{options: &Options{Issuer: "https://issuer.example", Store: kv}}
	if err := p.openStore(inMemory); err != nil {
		t.Fatal(err)
	}
	logins := make([]grant, n)
	for i := range logins {
		logins[i] = grant{Login: rand.Text(), Expires: time.Now().Add(defaultLoginLife)}
		used := logins[i]
		if _, err := p.spend(t.Context(), &used); err != nil {
			t.Fatalf("login %d: %v", i, err)
		}
	}
	return p, logins
}

// Without a store, only the logins that were used last are remembered. A store has all of them.
func TestLoginsInMemoryAreBounded(t *testing.T) {
	memory, err := store.NewMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	for name, test := range map[string]struct {
		kv   store.KV
		want int
	}{"no store": {nil, 10}, "a store": {memory, 25}} {
		p, logins := spendAll(t, test.kv, 10, 25)
		known := 0
		for i := len(logins) - 1; i >= 0; i-- { // the newest first, as each use forgets the oldest
			if _, err := p.spend(t.Context(), &logins[i]); errors.Is(err, errSpent) {
				known++
			} else if err != nil {
				t.Fatal(err)
			}
		}
		if known != test.want {
			t.Errorf("%s: %d logins are remembered, want %d", name, known, test.want)
		}
	}
}

// A private store in memory has room for the logins that are remembered.
func TestLoginsFitIntoMemory(t *testing.T) {
	const part = 100
	memory, err := store.NewMemory(&store.MemoryOptions{Bytes: 64 << 20 / part})
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	spendAll(t, memory, 0, maxUsed/part)
}
