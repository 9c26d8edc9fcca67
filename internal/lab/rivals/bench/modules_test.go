package main

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// README.md has the number of modules, the library included, that a small server over HTTP links with each library.
func TestReadmeCountsModules(t *testing.T) {
	row := "| modules in such a server over HTTP |"
	for _, library := range []string{"dovetail", "go-sdk", "mcp-go"} {
		listed, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}", "./hello/"+library+"-http").Output()
		if err != nil {
			t.Fatal(err)
		}
		modules := strings.Fields(string(listed))
		slices.Sort(modules)
		row += fmt.Sprintf(" %d |", len(slices.Compact(modules)))
	}
	page, err := os.ReadFile("../../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), row+"\n") {
		t.Errorf("README.md does not have the row %s", row)
	}
}
