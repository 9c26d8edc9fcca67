//go:build !unix

package resources_test

import (
	"os"
	"testing"
)

func makeFIFO(testing.TB, *os.Root, string) bool { return false }
