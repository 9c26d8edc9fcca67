package main

import (
	"fmt"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// mutationsIn returns the mutations of a file with the declarations.
func mutationsIn(t *testing.T, declarations string) (source string, found []mutation) {
	t.Helper()
	source = "package p\n\n" + declarations + "\n"
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "p.go", source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return source, mutationsOf("a/p", "p.go", []byte(source), fset, file)
}

// Each kind is found where it is possible, and nothing else is.
func TestMutationsOfEachKind(t *testing.T) {
	for _, test := range []struct {
		kind, source string
		want         []string // the changed lines
	}{
		{condition, "func f(a bool) {\n\tif a {\n\t}\n}", []string{"\tif !(a) {"}},
		{condition, "func f(a bool) {\n\tif err := g(); err != nil {\n\t}\n}", []string{"\tif err := g(); !(err != nil) {"}},
		{condition, "func f(a bool) {\n\tfor a {\n\t}\n\tfor {\n\t}\n}", []string{"\tfor !(a) {"}},
		{condition, "func f(a, b bool) {\n\tswitch {\n\tcase a, b:\n\tdefault:\n\t}\n}", []string{"\tcase !(a), b:", "\tcase a, !(b):"}},
		{condition, "func f(a int) {\n\tswitch a {\n\tcase 1:\n\t}\n}", nil},

		{condition, "func f(a int) {\n\tif g(); a > 1 {\n\t\ts.log.Warn(a)\n\t}\n}", nil},
		{condition, "func f(a bool) {\n\tif a {\n\t\tlog.Warn(a)\n\t} else {\n\t\tg()\n\t}\n}", []string{"\tif !(a) {"}},
		{condition, "func f(a bool) {\n\tif a {\n\t\tlog.Warn(a)\n\t\tg()\n\t}\n}", []string{"\tif !(a) {"}},

		{comparison, "func f(a, b int) bool {\n\treturn a < b\n}", []string{"\treturn a <= b"}},
		{comparison, "func f(a, b int) bool {\n\treturn a <= b\n}", []string{"\treturn a < b"}},
		{comparison, "func f(a, b int) bool {\n\treturn a > b\n}", []string{"\treturn a >= b"}},
		{comparison, "func f(a, b int) bool {\n\treturn a >= b\n}", []string{"\treturn a > b"}},
		{comparison, "func f(a, b int) bool {\n\treturn a == b\n}", nil},
		{comparison, "func f(a []int) bool {\n\treturn cap(a) < 7\n}", nil},
		{comparison, "func f(a, b int) {\n\tif a < b {\n\t\ta = b\n\t}\n}", nil}, // both are the same

		{logic, "func f(a, b bool) bool {\n\treturn a && b\n}", []string{"\treturn a || b"}},
		{logic, "func f(a, b bool) bool {\n\treturn a || b\n}", []string{"\treturn a && b"}},

		{statement, "func f() {\n\tg(1)\n}", []string{"\t"}},
		{statement, "func f() {\n\ta.n = 1\n}", []string{"\t"}},
		{statement, "func f() {\n\ta++\n}", []string{"\t"}},
		{statement, "func f() {\n\ta += 2\n}", []string{"\t"}},
		{statement, "func f() {\n\t_ = a.Flush()\n}", []string{"\t"}},
		{statement, "func f() {\n\tswitch a {\n\tcase 1:\n\t\tg()\n\t}\n}", []string{"\t\t"}},
		{statement, "func f() {\n\tselect {\n\tcase <-c:\n\t\tg()\n\t}\n}", []string{"\t\t"}},
		{statement, "func f() {\n\ta := 1\n\t_ = a\n}", nil},
		{statement, "func f() {\n\tpanic(a)\n}", nil},
		{statement, "func f() {\n\tb.Grow(5)\n}", nil},
		{statement, "func f() {\n\ta.opts.Logger.Warn(g())\n\tlog.InfoContext(ctx, g())\n}", nil},
		{statement, "func f() {\n\tmu.Lock()\n\tmu.Unlock()\n}", nil},

		{lock, "func (s *T) f() {\n\ts.mu.Lock()\n\tdefer s.mu.Unlock()\n}", []string{"\t|\t"}},
		{lock, "func f() {\n\tmu.RLock()\n\tif a {\n\t\tmu.RUnlock()\n\t\treturn\n\t}\n\tmu.RUnlock()\n}", []string{"\t|\t\t|\t"}},
		{lock, "func f() {\n\tmu.Lock()\n\tdefer func() {\n\t\tmu.Unlock()\n\t}()\n}", []string{"\t|\t\t"}},
		{lock, "func f() {\n\ta.Lock()\n\tb.Lock()\n\tb.Unlock()\n\ta.Unlock()\n}", []string{"\t|\t", "\t|\t"}},
		{lock, "func f() {\n\tmu.Lock()\n}\n\nfunc g() {\n\tmu.Unlock()\n}", nil}, // ends elsewhere
		{lock, "func f() {\n\ta.Lock()\n\tb.Unlock()\n}", nil},

		{errorValue, "func f() error {\n\treturn err\n}", []string{"\treturn func(error) error { return nil }(err)"}},
		{errorValue, "func f() (int, error) {\n\treturn 0, g(1)\n}", []string{"\treturn 0, func(error) error { return nil }(g(1))"}},
		{errorValue, "func f() (n int, err error) {\n\treturn 0, nil\n}", nil},
		{errorValue, "func f() (int, error) {\n\treturn g()\n}", nil},
		{errorValue, "func f() int {\n\th(func() error {\n\t\treturn err\n\t})\n\treturn a\n}", []string{"\t\treturn func(error) error { return nil }(err)"}},

		{constant, "func f() int {\n\treturn 7\n}", []string{"\treturn 8"}},
		{constant, "const a = 64 << 0x0a", []string{"const a = 65 << 0x0a", "const a = 64 << 11"}},
		{constant, "const (\n\ta = iota + 1\n\tb\n)", nil},
		{constant, "var a = make(map[int]int, 8)", nil},
		{constant, "var a = make([]int, 3, 8)", []string{"var a = make([]int, 4, 8)"}},
		{constant, "type A [2]int", nil},
		{constant, "func (a T) String() string {\n\treturn b[2]\n}", nil},

		{arithmetic, "func f(a, b int) int {\n\treturn a + b\n}", []string{"\treturn a - b"}},
		{arithmetic, "func f(a, b int) int {\n\treturn a - b\n}", []string{"\treturn a + b"}},
		{arithmetic, "func f(a int) {\n\ta += g()\n}", []string{"\ta -= g()"}},
		{arithmetic, "func f(a string) string {\n\treturn a + \"x\"\n}", nil},

		// How a capacity is estimated is left out, unless the estimate is used for something else.
		{arithmetic, "func f() {\n\tn := 9 + a\n\tn += b\n\tc = make([]int, 0, n)\n}", nil},
		{constant, "func f() {\n\tn := 9 + a\n\tc = make([]int, 0, n)\n}", []string{"\tc = make([]int, 1, n)"}},
		{statement, "func f() {\n\tn := a\n\tn += b\n\tc = make(map[int]int, n)\n}", []string{"\t"}},
		{statement, "func f() {\n\tn := a\n\tn = min(n, b)\n\tc = make([]int, 0, n)\n}", []string{"\t", "\t"}},
		{arithmetic, "func f() {\n\tn := 9 + a\n\tc = d.Grow(e, n)\n}", []string{"\tn := 9 - a"}},
		{arithmetic, "func f() {\n\tn := 9 + a\n\tc = make([]int, n)\n}", []string{"\tn := 9 - a"}},
		{arithmetic, "func f() {\n\tn := 9 + a\n\tc = make([]int, 0, n)\n\tg(n)\n}", []string{"\tn := 9 - a"}},
		{arithmetic, "func f(n int) {\n\tn += a\n\tc = make([]int, 0, n)\n}", []string{"\tn -= a"}},
		{arithmetic, "func f() (n int) {\n\tn += a\n\tc = make([]int, 0, n)\n}", []string{"\tn -= a"}},

		{release, "func f() {\n\tdelete(a, b)\n}", []string{"\t"}},
		{release, "func f() {\n\tdefer close(done)\n}", []string{"\t"}},
		{release, "func f() {\n\tdefer cancel()\n}", []string{"\t_ = cancel"}},
		{release, "func f() {\n\ta.Close()\n}", []string{"\t"}},
		{release, "func f() {\n\t_ = a.Close()\n}", []string{"\t"}},
		{release, "func f() {\n\tdefer a.mu.Unlock()\n}", nil},
	} {
		source, found := mutationsIn(t, test.source)
		var got []string
		for _, m := range found {
			if m.kind == test.kind {
				got = append(got, changedLines(source, string(m.apply([]byte(source)))))
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s of\n%s\ngot  %q\nwant %q", test.kind, test.source, got, test.want)
		}
	}
}

// changedLines returns the lines that differ, separated by |.
func changedLines(before, after string) string {
	var changed []string
	old := strings.Split(before, "\n")
	for i, line := range strings.Split(after, "\n") {
		if i >= len(old) || line != old[i] {
			changed = append(changed, line)
		}
	}
	return strings.Join(changed, "|")
}

// A removed statement of several lines does not move the lines after it.
func TestMutationsKeepLines(t *testing.T) {
	source, found := mutationsIn(t, "func f() error {\n\tg(\n\t\t1,\n\t)\n\treturn h(\n\t\t2,\n\t)\n}")
	for _, m := range found {
		if got := string(m.apply([]byte(source))); strings.Count(got, "\n") != strings.Count(source, "\n") {
			t.Errorf("%s: the lines have moved:\n%s", m, got)
		}
	}
}

// The same text at two places of a function is two mutations, and each place has its line.
func TestMutationsAreDistinct(t *testing.T) {
	_, found := mutationsIn(t, "func (s *T[V]) f(a int) {\n\tg(a)\n\tg(a)\n}\n\nfunc g(a int) {\n\tg(a)\n}")
	var got []string
	for _, m := range found {
		got = append(got, fmt.Sprintf("%d %s", m.line, m.id()))
	}
	want := []string{
		"4 a/p/p.go T.f statement: removed `g(a)` #1",
		"5 a/p/p.go T.f statement: removed `g(a)` #2",
		"9 a/p/p.go g statement: removed `g(a)` #1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%q, want\n%q", got, want)
	}
}

// A seed gives the same order each time, in which the kinds alternate. Other seeds give others.
// A new function does not change the order of the mutations in others.
func TestOrderDependsOnlyOnSeedAndMutations(t *testing.T) {
	functions := func(count int) string {
		var b strings.Builder
		for i := range count {
			fmt.Fprintf(&b, "func f%d(a, b int) bool {\n\tg(a)\n\treturn a < b\n}\n\n", i)
		}
		return b.String()
	}
	ids := func(list []mutation) (ids []string) {
		for _, m := range list {
			ids = append(ids, m.id())
		}
		return ids
	}
	_, found := mutationsIn(t, functions(20))
	first := ids(order(found, "one"))
	slices.Reverse(found)
	if again := ids(order(found, "one")); !slices.Equal(again, first) {
		t.Errorf("the order depends on the order of the candidates:\n%q\n%q", first, again)
	}
	if other := ids(order(found, "two")); slices.Equal(other, first) {
		t.Error("another seed gives the same order")
	}
	for i, m := range order(found, "one") {
		if want := []string{comparison, statement}[i%2]; m.kind != want {
			t.Fatalf("number %d is %s, want a %s", i, m, want)
		}
	}

	_, more := mutationsIn(t, "func extra(a, b int) bool {\n\treturn a > b\n}\n\n"+functions(20))
	rest := slices.DeleteFunc(order(more, "one"), func(m mutation) bool { return m.function == "extra" })
	inKind := func(list []mutation, kind string) []string {
		return ids(slices.DeleteFunc(slices.Clone(list), func(m mutation) bool { return m.kind != kind }))
	}
	for _, kind := range []string{comparison, statement} {
		if before, after := inKind(order(found, "one"), kind), inKind(rest, kind); !slices.Equal(before, after) {
			t.Errorf("a new function has changed the order:\n%q\n%q", before, after)
		}
	}
}

// The core packages exist, have tests, and have mutations of every kind.
func TestCorePackagesHaveMutations(t *testing.T) {
	counts := map[string]int{}
	for _, folder := range corePackages() {
		p, err := loadPackage("../../..", folder)
		if err != nil {
			t.Error(err)
			continue
		}
		if len(p.mutations) == 0 {
			t.Errorf("package %s has no mutations", folder)
		}
		for _, m := range p.mutations {
			counts[m.kind]++
		}
		if overAll := folder == "server" || folder == "client"; overAll != p.overAll {
			t.Errorf("package %s: its tests run over every transport is %t, want %t", folder, p.overAll, overAll)
		}
		if folder == "server" && !p.concurrent || folder == "policy" && p.concurrent {
			t.Errorf("package %s: concurrent is %t", folder, p.concurrent)
		}
	}
	for _, kind := range kinds() {
		if counts[kind] < 100 {
			t.Errorf("there are %d mutations of kind %s, want many", counts[kind], kind)
		}
	}
}
