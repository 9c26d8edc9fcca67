package quickjs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/internal/test/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// TestInterpreterIsThePublishedOne: quickjs.wasm is the file of the npm package quickjs-wasi 3.7.0.
func TestInterpreterIsThePublishedOne(t *testing.T) {
	digest := sha256.Sum256(interpreter)
	if got, want := hex.EncodeToString(digest[:]), "c0bd8f296e18cf074969f6401b9ecb72609a1323818ec2b9bf7a8f8d740d1363"; got != want {
		t.Errorf("the SHA-256 of quickjs.wasm is %s, want %s", got, want)
	}
}

// A recorder keeps what scripts send.
type recorder struct{ sent []string }

func (r *recorder) Send(values []Value) {
	for _, v := range values {
		text, _ := v.Text(1 << 20)
		r.sent = append(r.sent, text)
	}
}

func (*recorder) Now() int64      { return int64(time.Second) }
func (*recorder) Random() float64 { return 0.25 }

// testPrelude sends the values of scripts, and what the host delivers.
const testPrelude = `(send, random) => {
	globalThis.random = random
	return (what, value) => {
		if (what === "script") Promise.resolve(value()).then(v => send(JSON.stringify(v) ?? "undefined"), e => send(String(e)))
		else send(what, value)
	}
}`

func newEngine(t testing.TB, interpret bool) *Engine {
	t.Helper()
	e, err := New(t.Context(), &Options{Memory: 16 << 20, Interpret: interpret, Prelude: testPrelude})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return e
}

// evaluate returns what a script sends.
func evaluate(t *testing.T, e *Engine, source string) []string {
	t.Helper()
	r := &recorder{}
	s, err := e.Start(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Run(t.Context(), "(async () => {"+source+"\n})", "script.js"); err != nil {
		return []string{err.Error()}
	}
	return r.sent
}

// programs use different parts of the interpreter.
var programs = map[string]string{
	`let f = n => n < 2 ? n : f(n - 1) + f(n - 2); return f(20)`:                                                                                    `6765`,
	`return [0.1 + 0.2, 1 / 3, 2 ** 0.5, Math.sin(1), Math.exp(10), Math.log(7), -0 === 0, 5 % -3, 1e21 + 1]`:                                       `[0.30000000000000004,0.3333333333333333,1.4142135623730951,0.8414709848078965,22026.465794806718,1.9459101490553132,true,2,1e+21]`,
	`return [(123.456).toFixed(1), (255).toString(16), (0.000001).toString(), (1e300 * 1e10).toString(), parseFloat("3.14abc"), Number("0x1f")]`:    `["123.5","ff","0.000001","Infinity",3.14,31]`,
	`return (2n ** 200n % 1000000007n).toString() + (-7n / 2n).toString()`:                                                                          `"499445072-3"`,
	`return [..."a😀é"].map(c => c.codePointAt(0))`:                                                                                                  `[97,128512,233]`,
	`return "The Quick brown".replace(/(?<first>\w)(\w*)/g, (_, a, b) => b + a).split(" ")`:                                                         `["heT","uickQ","rownb"]`,
	`return /^(?:(\d+)-)?(?=x)x{2,3}(?<!y)$/u.exec("42-xxx")`:                                                                                       `["42-xxx","42"]`,
	`return [5, 1, 4, 2, 3].sort((a, b) => b - a).concat([..."zebra"].sort())`:                                                                      `[5,4,3,2,1,"a","b","e","r","z"]`,
	`return JSON.parse('{"a":[1,2.5,"\\u00e9",null,true,{"b":{}}]}')`:                                                                               `{"a":[1,2.5,"é",null,true,{"b":{}}]}`,
	`function* g() { let x = yield 1; try { yield x } finally { yield "end" } } const i = g(); return [i.next(), i.next(7), i.return(8), i.next()]`: `[{"value":1,"done":false},{"value":7,"done":false},{"value":"end","done":false},{"value":8,"done":true}]`,
	`const log = []; await Promise.all([3, 1, 2].map(async n => { for (let i = 0; i < n; i++) await null; log.push(n) })); return log`:              `[1,2,3]`,
	`class A { #x = 1; get x() { return this.#x } static { A.y = 2 } } class B extends A { x2 = super.x * 2 } return [new B().x2, A.y]`:             `[2,2]`,
	`const { a = 1, ...rest } = { b: 2, c: 3 }; return [a, rest, [...new Set([1, 1, 2])], new Map([[1, 2]]).get(1)]`:                                `[1,{"b":2,"c":3},[1,2],2]`,
	`const a = new Float64Array([1.5, -2]); return [...new Uint8Array(a.buffer)]`:                                                                   `[0,0,0,0,0,0,248,63,0,0,0,0,0,0,0,192]`,
	`return new DataView(new ArrayBuffer(8)).getFloat32(0) + new Int16Array([70000])[0]`:                                                            `4464`,
	`return [new Date(0).toISOString(), Date.now(), new Date(2024, 1, 29).getDay(), random()]`:                                                      `["1970-01-01T00:00:00.000Z",1000,4,0.25]`,
	`try { null.x } catch (e) { return e instanceof TypeError }`:                                                                                    `true`,
	`let s = 0; for (let i = 0; i < 100000; i++) s = (s * 31 + i) | 0; return s`:                                                                    `-2072239280`,
	`return btoa("hello") + atob("aGk=")`:                                                                                                           `"aGVsbG8=hi"`,
	`label: for (let i = 0; ; i++) { switch (i) { case 3: break label; default: continue label } } return typeof undefined`:                         `"undefined"`,
	`const p = new Proxy({}, { get: (_, k) => k + "!" }); return p.a + Reflect.ownKeys({ b: 1, 2: 1, [Symbol.iterator]: 1 }).length`:                `"a!3"`,
	`throw new RangeError("no")`: `RangeError: no`,
	`return`:                     `undefined`,
}

// TestCompiledProgramsAgreeWithTheInterpreter: WebAssembly gives the same results when it is compiled and when it is interpreted.
func TestCompiledProgramsAgreeWithTheInterpreter(t *testing.T) {
	engines := map[string]*Engine{"compiled": newEngine(t, false), "interpreted": newEngine(t, true)}
	for source, want := range programs {
		for name, e := range engines {
			if got := evaluate(t, e, source); !slices.Equal(got, []string{want}) {
				t.Errorf("%s, %s: %q, want %q", source, name, got, want)
			}
		}
	}
}

// TestScriptsDoNotShareMemory: what a script changes is not there for the next one.
func TestScriptsDoNotShareMemory(t *testing.T) {
	e := newEngine(t, false)
	evaluate(t, e, `globalThis.left = 1; Array.prototype.map = null; Object.prototype.x = 1`)
	if got := evaluate(t, e, `return [typeof left, typeof [].map, {}.x ?? "none"]`); !slices.Equal(got, []string{`["undefined","function","none"]`}) {
		t.Errorf("the next script sends %q", got)
	}
}

// TestDeliver: texts reach the script unchanged.
func TestDeliver(t *testing.T) {
	e := newEngine(t, false)
	r := &recorder{}
	s, err := e.Start(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	text := "a\x00é😀\u2028\"\\"
	if err := s.Deliver(t.Context(), "x", text); err != nil || !slices.Equal(r.sent, []string{"x", text}) {
		t.Errorf("delivered is %q %v", r.sent, err)
	}
}

// TestEndedContextStopsScripts: the error is the cause, and stays.
func TestEndedContextStopsScripts(t *testing.T) {
	e := newEngine(t, false)
	s, err := e.Start(t.Context(), &recorder{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	cause := errors.New("no more")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, cause)
	defer cancel()
	if err := s.Run(ctx, "(() => { for (;;); })", "script.js"); !errors.Is(err, cause) {
		t.Errorf("the error is %v", err)
	}
	if err := s.Deliver(t.Context(), "x", "y"); !errors.Is(err, cause) {
		t.Errorf("later the error is %v", err)
	}
}

// TestMemoryIsLimited: a script that needs more ends, and cannot catch the error.
func TestMemoryIsLimited(t *testing.T) {
	e := newEngine(t, false)
	if got := evaluate(t, e, `try { new Uint8Array(1 << 30) } catch (e) { return "" + e }`); !slices.Equal(got, []string{"InternalError: out of memory"}) {
		t.Errorf("the script sends %q", got)
	}
}

// TestCacheDir: a later engine uses what the first has compiled.
func TestCacheDir(t *testing.T) {
	opts := &Options{Memory: 16 << 20, CacheDir: t.TempDir(), Prelude: testPrelude}
	for range 2 {
		e, err := New(t.Context(), opts)
		if err != nil {
			t.Fatal(err)
		}
		if got := evaluate(t, e, `return 1`); !slices.Equal(got, []string{"1"}) {
			t.Errorf("the script sends %q", got)
		}
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
