package backoff_test

import (
	"fmt"

	"github.com/dovetail-go/dovetail/internal/backoff"
)

func ExampleBackoff() {
	b := backoff.Backoff{Random: func() float64 { return 0.5 }} // no surprises in an example
	for range 3 {
		fmt.Println(b.Next())
	}
	b.Reset() // it worked
	fmt.Println(b.Next())
	// Output:
	// 100ms
	// 200ms
	// 400ms
	// 100ms
}
