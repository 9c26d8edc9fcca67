package seal_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/dovetail-go/dovetail/internal/seal"
)

func ExampleNewRing() {
	key := make([]byte, seal.MinKey) // in earnest: from a secret store
	rand.Read(key)
	r, err := seal.NewRing(key)
	if err != nil {
		panic(err)
	}

	now := time.Now()
	token, err := r.Seal([]byte("step 2 of 3"), seal.Binding("ann", "tools/call"), now.Add(time.Minute))
	if err != nil {
		panic(err)
	}
	state, err := r.Open(token, seal.Binding("ann", "tools/call"), now)
	fmt.Printf("%s, %v\n", state, err)
	_, err = r.Open(token, seal.Binding("bob", "tools/call"), now)
	fmt.Println(errors.Is(err, seal.ErrForged))
	_, err = r.Open(token, seal.Binding("ann", "tools/call"), now.Add(time.Hour))
	fmt.Println(errors.Is(err, seal.ErrExpired))
	// Output:
	// step 2 of 3, <nil>
	// true
	// true
}
