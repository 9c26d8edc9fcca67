package pattern_test

import (
	"errors"
	"regexp/syntax"
	"runtime"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/pattern"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestCompile(t *testing.T) {
	for _, text := range []string{
		``, `^[a-z]+$`, `^.{1,1000}$`, `^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$`,
		`^[\p{L}\p{N}_-]{1,255}$`, `^([a-z0-9-]{1,63}\.){1,10}[a-z]{2,63}$`, `(?i)^` + strings.Repeat("word|", 1000) + `$`,
	} {
		p, err := pattern.Compile(text)
		if err != nil {
			t.Errorf("%.40s: %v", text, err)
		} else if p.String() != text || p.Size() < 1 {
			t.Errorf("%.40s: got %.40s of size %d", text, p, p.Size())
		}
	}
	if _, err := pattern.Compile("(?=x)"); err == nil {
		t.Error("a look-ahead was compiled")
	} else if _, ok := errors.AsType[*syntax.Error](err); !ok {
		t.Errorf("got %T, want a *syntax.Error", err)
	}
}

// Without the limit, compiling each of these takes up to seconds and gigabytes.
func TestCompileRefusesLargePatterns(t *testing.T) {
	for name, text := range map[string]string{
		"repeats":         strings.Repeat(`.{1000}`, 2000),
		"nested repeats":  strings.Repeat(`((.{10}){10}){10}`, 800),
		"optional":        strings.Repeat(`(x{0,1000})`, 1000),
		"open repeats":    strings.Repeat(`(x{1000,})`, 1000),
		"classes":         strings.Repeat(`\pL`, 5000),
		"folded classes":  `(?i)` + strings.Repeat(`[^\pL]`, 2000),
		"repeated groups": strings.Repeat(`(abcdefghij){1000}`, 900),
		"text":            strings.Repeat(`x`, pattern.MaxBytes+1),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := pattern.Compile(text)
			runtime.ReadMemStats(&after)
			if _, ok := errors.AsType[*pattern.SizeError](err); !ok {
				t.Errorf("got %v, want a SizeError", err)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 128<<20 {
				t.Errorf("took %d MiB", used>>20)
			}
		})
	}
}

// The size must not be below the number of instructions.
func TestSizeCoversTheProgram(t *testing.T) {
	for _, text := range []string{
		`a`, `abc`, `a*`, `a+?`, `(a|b|c)`, `^(x{3,7}y?){2,}$`, `(?i)straße`, `[a-z]{100}`, `(a{0,10}){0,10}`, `\bfoo\b`, `x{0}`, `(ab|cd){5,}`,
	} {
		p, err := pattern.Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		tree, _ := syntax.Parse(text, syntax.Perl)
		program, err := syntax.Compile(tree.Simplify())
		if err != nil {
			t.Fatal(err)
		}
		if got, want := p.Size(), len(program.Inst)-4; got < want {
			t.Errorf("%s: size %d of %d instructions", text, got, want)
		}
	}
}
