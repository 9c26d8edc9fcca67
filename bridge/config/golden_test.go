package config_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/bridge/config"
)

var update = flag.Bool("update", false, "write what is read from testdata/*.json into testdata/*.golden")

// Each file is one as its host's documentation shows it.
func TestFilesOfHosts(t *testing.T) {
	names, err := filepath.Glob("testdata/*.json")
	if err != nil || len(names) == 0 {
		t.Fatal("no files", err)
	}
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			file, err := config.Load(name)
			if err != nil {
				t.Fatal(err)
			}
			got := describe(t, file)
			golden := strings.TrimSuffix(name, ".json") + ".golden"
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// describe is all that was read, with nothing hidden: a line for each field that
// is set.
func describe(t *testing.T, file *config.File) []byte {
	t.Helper()
	var b bytes.Buffer
	for _, s := range file.Servers {
		fields(t, &b, s.Alias, reflect.ValueOf(*s))
	}
	for _, input := range file.Inputs {
		fields(t, &b, "input "+input.ID, reflect.ValueOf(*input))
	}
	for _, warning := range file.Warnings {
		b.WriteString(warning.String() + "\n")
	}
	return b.Bytes()
}

func fields(t *testing.T, b *bytes.Buffer, path string, v reflect.Value) {
	t.Helper()
	for field, value := range v.Fields() {
		switch name := path + "." + field.Name; {
		case !field.IsExported(), value.IsZero():
		case value.Kind() == reflect.Struct:
			fields(t, b, name, value)
		default:
			text, err := json.Marshal(value.Interface())
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(b, "%s = %s\n", name, text)
		}
	}
}
