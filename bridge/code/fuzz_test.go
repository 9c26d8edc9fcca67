package code_test

import (
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/bridge/code"
)

// FuzzScript: any text is a script that ends, with a value or an error, and the next script is not affected.
func FuzzScript(f *testing.F) {
	for _, script := range []string{
		`return await tools.echo({text: "x"})`, `return (await Promise.all([1, 2].map(i => tools.add({A: i, B: i})))).join()`,
		`try { await tools.fail({text: "x"}) } catch (e) { return e.stack }`, `console.log(new Map([[1, 2n]])); throw {a: [1]}`,
		`function* g() { yield* [1, 2] } return [...g()].map(x => x ** 2)`, `return /(a+)+$/.exec("aaa")`, `return new Proxy({}, {get: (_, k) => k}).x`,
		`}); (async () => {`, `return (() => {}).constructor("return 1")()`, `for (;;);`,
	} {
		f.Add(script)
	}
	session := connect(f, newTools(&ledger{}).Provider(), &code.Options{Logger: quiet(), Limits: code.Limits{Computing: 500 * time.Millisecond}}, nil)
	f.Fuzz(func(t *testing.T, script string) {
		begun := time.Now()
		if _, err := tryRun(t.Context(), session, script); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("stopped after %v", took)
		}
		if r := run(t, session, `return 1 + 1`); string(r.Value) != "2" {
			t.Errorf("the next script returns %s %s", r.Value, r.Error)
		}
	})
}
