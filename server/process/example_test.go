package process_test

import (
	"context"
	"fmt"

	"github.com/dovetail-go/dovetail/server/process"
)

// TestMain has stored the result of process.Main in guard.
func ExampleMain() {
	var out process.Output
	exit, err := guard.Run(context.Background(), &process.Command{
		Path: "go", Args: []string{"env", "GOHOSTARCH", "NO_SUCH"}, Stdout: &out, Stderr: &out,
	})
	fmt.Println(exit.Code, err, out.Written() > 0)
	// Output: 0 <nil> true
}
