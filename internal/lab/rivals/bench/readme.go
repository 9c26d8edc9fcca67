package main

import (
	"bytes"
	"fmt"
	"os"
)

// What stands between these lines of README.md is written by -readme.
const (
	resultsBegin = "<!-- results -->\n"
	resultsEnd   = "<!-- end of results -->\n"
)

func writeReadme(path string, r *Result) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, ok := bytes.Cut(text, []byte(resultsBegin))
	_, after, ended := bytes.Cut(rest, []byte(resultsEnd))
	if !ok || !ended {
		return fmt.Errorf("%s has no lines %q and %q", path, resultsBegin, resultsEnd)
	}
	var b bytes.Buffer
	b.Write(before)
	b.WriteString(resultsBegin + "\n")
	markdown(&b, r)
	b.WriteString("\n" + resultsEnd)
	b.Write(after)
	return os.WriteFile(path, b.Bytes(), 0o600)
}
