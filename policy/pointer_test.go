package policy

import (
	"strings"
	"testing"
)

func TestPointer(t *testing.T) {
	const text = `{"a":1,"b":{"c/d":[10,{"e~":"x"}]},"":{"":2},"n":null,"dup":{"x":1,"x":2},"case":{"Path":1,"path":2},"esc\u0061pe":3,"s":"{}"}`
	for path, want := range map[string]string{
		"": text, "/a": "1", "/b/c~1d/0": "10", "/b/c~1d/1/e~0": `"x"`, "//": "2", "/n": "null", "/escape": "3",
		"/z": "-", "/b/c~1d/2": "-", "/n/x": "-", "/a/x": "?", "/b/c~1d/x": "?", "/b/c~1d/00": "?", "/dup/x": "?", "/case/path": "?",
		"/case/PATH": "?", "/A": "?", "/s/x": "?", "/b/c~1d/-1": "?",
	} {
		p, err := compilePointer(path)
		if err != nil {
			t.Fatal(err)
		}
		value, found := p.find([]byte(text))
		got := map[truth]string{yes: string(value), no: "-", unknown: "?"}[found]
		if got != want {
			t.Errorf("%q leads to %s, want %s", path, got, want)
		}
	}
	for _, path := range []string{"a", "/~", "/~2", "/a~"} {
		if _, err := compilePointer(path); err == nil {
			t.Errorf("%q is a path", path)
		}
	}
	if _, found := (pointer{"a"}).find(nil); found != no {
		t.Error("there is something in no arguments")
	}
	if _, found := (pointer{"a"}).find([]byte(`{"a":1,`)); found != unknown {
		t.Error("something can be told about broken arguments")
	}
}

func FuzzPointer(f *testing.F) {
	f.Add("/a/0/b~1", `{"a":[{"b/":1}]}`)
	f.Add("//~0", `{"":{"~":null}}`)
	f.Fuzz(func(t *testing.T, path, text string) {
		p, err := compilePointer(path)
		if err != nil {
			return
		}
		again := ""
		for _, token := range p {
			again += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(token)
		}
		if again != path {
			t.Errorf("%q was read as %q", path, again)
		}
		if value, found := p.find([]byte(text)); found == yes && !strings.Contains(text, string(value)) {
			t.Errorf("%q leads to %q in %q", path, value, text)
		}
	})
}
