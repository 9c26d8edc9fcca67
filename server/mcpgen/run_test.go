package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestProgram builds a program with what mcpgen writes, and sees what its clients are
// told.
func TestProgram(t *testing.T) {
	const program = "testdata/shop"
	if *update {
		succeed(t, program)
	}
	succeed(t, program, "-check")
	cmd := exec.Command("go", "run", "./"+program)
	cmd.Stderr = os.Stderr
	got, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join(program, "output.txt")
	if *update {
		if err := os.WriteFile(golden, got, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(read(t, program, "output.txt"), string(got)); diff != "" {
		t.Errorf("the program's clients are told otherwise (-want +got):\n%s", diff)
	}
}
