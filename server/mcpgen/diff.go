package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// compare writes the difference between the file and what it should be to w, if there
// is one, and returns an error then.
func compare(before, after []byte, w io.Writer) error {
	difference := diff(string(before), string(after))
	if difference == "" {
		return nil
	}
	if _, err := fmt.Fprintf(w, "--- %s\n+++ as mcpgen would write it\n%s", outputName, difference); err != nil {
		return err
	}
	return errors.New(outputName + " is not up to date: run mcpgen")
}

// diff is a unified diff of two texts, one hunk without context, empty if they are
// the same.
func diff(before, after string) string {
	old, now := slices.Collect(strings.Lines(before)), slices.Collect(strings.Lines(after))
	start := 0
	for start < len(old) && start < len(now) && old[start] == now[start] {
		start++
	}
	old, now = old[start:], now[start:]
	for len(old) > 0 && len(now) > 0 && old[len(old)-1] == now[len(now)-1] {
		old, now = old[:len(old)-1], now[:len(now)-1]
	}
	if len(old)+len(now) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "@@ -%s +%s @@\n", lineRange(start, len(old)), lineRange(start, len(now)))
	for _, line := range old {
		fmt.Fprintf(&b, "-%s\n", strings.TrimSuffix(line, "\n"))
	}
	for _, line := range now {
		fmt.Fprintf(&b, "+%s\n", strings.TrimSuffix(line, "\n"))
	}
	return b.String()
}

// lineRange is the place of lines in a unified diff. Nothing stands after the line
// before it.
func lineRange(start, count int) string {
	if count > 0 {
		start++
	}
	return fmt.Sprintf("%d,%d", start, count)
}
