package resources_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/server/resources"
)

func BenchmarkRead(b *testing.B) {
	root := open(b, map[string]string{"doc.md": strings.Repeat("x", 4<<10), "a/b/c/doc.md": strings.Repeat("x", 4<<10)})
	session := offer(b, append(directory(b, root, &resources.DirectoryOptions{Pattern: "**"}), file(b, root, "doc.md", &resources.FileOptions{}))...)
	for name, uri := range map[string]string{"single": "file:///doc.md", "deep": "file:///a/b/c/doc.md"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := read(session, uri); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkList(b *testing.B) {
	files := make(map[string]string)
	for i := range 1000 {
		files[fmt.Sprintf("%d/%d/%d.md", i/100, i/10%10, i)] = ""
	}
	session := offer(b, directory(b, open(b, files), &resources.DirectoryOptions{Pattern: "**/*.md"})...)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := read(session, "file:///"); err != nil {
			b.Fatal(err)
		}
	}
}
