package code_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/bridge/code"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/racetest"
	"github.com/dovetail-go/dovetail/server/servertest"
)

// hostile are scripts that try to use more time, memory, stack, output or calls than they get, or to reach something outside.
var hostile = map[string]string{
	"an endless loop":                       `for (;;);`,
	"an endless loop that catches":          `for (;;) { try { for (;;); } catch {} }`,
	"an endless loop in finally":            `try { return 1 } finally { for (;;); }`,
	"an endless loop in a getter":           `return { get a() { for (;;); } }`,
	"an endless loop in toJSON":             `return { toJSON() { for (;;); } }`,
	"an endless loop in toString":           `throw { toString() { for (;;); } }`,
	"an endless loop in valueOf":            `return 1 + { valueOf() { for (;;); } }`,
	"an endless loop in a proxy":            `return JSON.stringify(new Proxy({}, { ownKeys() { for (;;); } }))`,
	"an endless loop in a generator":        `function* g() { for (;;) yield 1 } for (const x of g());`,
	"an endless loop in a setter":           `const o = { set a(x) { for (;;); } }; o.a = 1`,
	"an endless loop in a message":          `const e = new Error("x"); Object.defineProperty(e, "message", { get() { for (;;); } }); throw e`,
	"an endless loop in a stack":            `const e = new Error("x"); Object.defineProperty(e, "stack", { get() { for (;;); } }); throw e`,
	"an endless loop in a comparison":       `return [3, 2, 1].sort(() => { for (;;); })`,
	"an endless loop in a replacement":      `return "aa".replace(/a/g, () => { for (;;); })`,
	"an endless loop in then":               `return { then() { for (;;); } }`,
	"an endless loop after then":            `Promise.resolve().then(() => { for (;;); }); return 1`,
	"an endless loop after a call":          `await tools.echo({ text: "x" }); for (;;);`,
	"a promise storm":                       `const f = () => Promise.resolve().then(f); await f()`,
	"a growing promise storm":               `const f = () => { Promise.resolve().then(f); Promise.resolve().then(f) }; f(); await new Promise(() => {})`,
	"an endless async generator":            `async function* g() { for (;;) yield 1 } for await (const x of g());`,
	"a generator storm":                     `const all = []; for (;;) all.push((function* () { yield* all })().next())`,
	"a growing array":                       `const a = []; for (;;) a.push(a)`,
	"a growing array of objects":            `const a = []; for (;;) a.push({ a: 1, b: [2], c: "3" })`,
	"a growing array that catches":          `const a = []; for (;;) { try { a.push(new Array(1e6).fill(1)) } catch {} }`,
	"a growing string":                      `let s = "x"; for (;;) s += s`,
	"a growing string that is flat":         `let s = "x"; for (;;) { s += s; s.indexOf("y") }`,
	"a growing map":                         `const m = new Map(); for (let i = 0; ; i++) m.set(i, {})`,
	"a growing object":                      `const o = {}; for (let i = 0; ; i++) o["k" + i] = i`,
	"a growing symbol table":                `const o = {}; for (;;) o[Symbol()] = 1`,
	"a long array that is joined":           `return Array(5e8).join("x")`,
	"a long array that is filled":           `return new Array(2 ** 32 - 1).fill(0).length`,
	"a long array that is sorted":           `return Array.from({ length: 1e8 }, Math.random).sort()`,
	"a long array that is concatenated":     `const a = Array(1e7).fill(0); let b = []; for (;;) b = b.concat(a)`,
	"a sparse array that is searched":       `return Array(2 ** 32 - 1).indexOf(1)`,
	"a sparse array that is reversed":       `const a = []; a[4e9] = 1; return a.reverse().length`,
	"an array-like with a large length":     `return Array.prototype.slice.call({ length: 2 ** 53 - 1 })`,
	"an array-like that is spliced":         `return Array.prototype.splice.call({ length: 2 ** 53 - 1 }, 0, 1)`,
	"large typed arrays":                    `const a = []; for (;;) a.push(new Uint8Array(1 << 24))`,
	"a typed array that is too large":       `return new Uint8Array(2 ** 40)`,
	"a resizable buffer":                    `const b = new ArrayBuffer(1, { maxByteLength: 2 ** 31 }); b.resize(2 ** 31 - 1); return b.byteLength`,
	"repeat":                                `return "x".repeat(2 ** 29)`,
	"padding":                               `return "x".padStart(2 ** 30 - 1, "abc")`,
	"replacements that multiply":            `let s = "x".repeat(1e5); for (;;) s = s.replace(/x/g, "$&$&$&")`,
	"split and join":                        `let s = "xy"; for (;;) s = s.split("").join("xxxxxxxx")`,
	"a regular expression that backtracks":  `return /^(a+)+$/.test("a".repeat(50) + "b")`,
	"a regular expression with lookbehind":  `return /(?<=(a|aa)+)b/.test("a".repeat(60) + "c")`,
	"a regular expression with captures":    `return new RegExp("(".repeat(10000) + "a" + ")".repeat(10000)).test("a")`,
	"a regular expression with repetitions": `return new RegExp("((a{1,1000}){1,1000}){1,1000}").test("a".repeat(100000))`,
	"a regular expression with classes":     `return new RegExp("[" + Array.from({ length: 50000 }, (_, i) => String.fromCharCode(i + 256)).join("") + "]+").test("x")`,
	"deep recursion":                        `const f = () => f(); f()`,
	"deep recursion that catches":           `const f = () => { try { f() } catch { f() } }; f()`,
	"deep recursion through toString":       `const o = { toString: () => String(o) }; return "" + o`,
	"deep recursion through a getter":       `const o = { get a() { return this.a } }; return o.a`,
	"deep recursion through a proxy":        `const p = new Proxy({}, { get: (t, k, r) => r[k] }); return p.x`,
	"deep recursion of proxies":             `let p = {}; for (let i = 0; i < 1e6; i++) p = new Proxy(p, {}); return p.x`,
	"deep recursion of bound functions":     `let f = () => 1; for (let i = 0; i < 1e6; i++) f = f.bind(); return f()`,
	"deep recursion through async":          `const f = async () => await f(); await f()`,
	"deep JSON":                             `return JSON.parse("[".repeat(1e6) + "]".repeat(1e6))`,
	"deep values":                           `let o = {}; for (let i = 0; i < 1e6; i++) o = { o }; return o`,
	"a cyclic value":                        `const o = {}; o.o = o; return o`,
	"deep parentheses":                      `return ` + strings.Repeat("(", 30_000) + "1" + strings.Repeat(")", 30_000),
	"deep arrays":                           `return ` + strings.Repeat("[", 30_000) + strings.Repeat("]", 30_000),
	"deep blocks":                           strings.Repeat("{", 30_000) + strings.Repeat("}", 30_000),
	"deep functions":                        strings.Repeat("()=>", 15_000) + "1",
	"deep templates":                        "return " + strings.Repeat("`${", 10_000) + "1" + strings.Repeat("}`", 10_000),
	"deep unary operators":                  "return " + strings.Repeat("!", 60_000) + "1",
	"many variables":                        "let " + manyNames(9_000),
	"a large value":                         `return Array(1e6).fill("x".repeat(50))`,
	"a large exception":                     `throw new Error("x".repeat(1e7))`,
	"a large name of an exception":          `const e = new Error("x"); e.name = "n".repeat(1e7); throw e`,
	"a large stack of an exception":         `const e = new Error("x"); e.stack = "script.js\n".repeat(1e6); throw e`,
	"a large thrown value":                  `throw { a: "x".repeat(1e7) }`,
	"a large console":                       `for (;;) console.log("x".repeat(1e6))`,
	"a large notes":                         `return Array(1e5).fill(Promise.resolve(1))`,
	"large handles":                         `return Array(1e5).fill({ handle: "x".repeat(100) })`,
	"large arguments":                       `await tools.echo({ text: "x".repeat(1e7) })`,
	"many calls":                            `for (;;) { try { await tools.echo({ text: "x" }) } catch {} }`,
	"many calls at once":                    `await Promise.all(Array.from({ length: 1e6 }, () => tools.echo({ text: "x" })))`,
	"calls that nobody awaits":              `for (let i = 0; i < 1e5; i++) tools.echo({ text: "x" }).catch(() => {}); for (;;);`,
	"large results":                         `const a = []; for (;;) a.push(await tools.large({ Size: 4000000 }))`,
	"large results at once":                 `return (await Promise.all(Array.from({ length: 50 }, () => tools.large({ Size: 4000000 })))).length`,
	"pictures":                              `return await Promise.all(Array.from({ length: 50 }, () => tools.picture()))`,
	"a big integer":                         `let n = 3n; for (;;) n *= n`,
	"a large power":                         `return (2n ** (2n ** 40n)).toString()`,
	"a slow conversion":                     `return (7n ** 3000000n).toString().length`,
	"exceptions without memory":             `const a = []; try { for (;;) a.push(new Uint8Array(1 << 20)) } catch {} for (;;) { try { a.push({}) } catch (e) { a.push(e) } }`,
	"changed prototypes":                    `Object.prototype.then = function (f) { f(1) }; Array.prototype.push = Array.prototype.map = () => { for (;;); }; return { a: [Promise.resolve(1)] }`,
	"changed JSON":                          `JSON.parse = JSON.stringify = Promise.prototype.then = () => { for (;;); }; return await tools.echo({ text: "x" })`,
	"changed globals":                       `for (const k of Object.getOwnPropertyNames(globalThis)) { try { globalThis[k] = null } catch {} } return 1`,
	"code from text: eval":                  `return eval("1")`,
	"code from text: Function":              `return Function("return 1")()`,
	"code from text: constructor":           `return (() => {}).constructor("return 1")()`,
	"code from text: async constructor":     `return await (async () => {}).constructor("return 1")()`,
	"code from text: generator constructor": `return (function* () {}).constructor("yield 1")().next().value`,
	"code from text: class":                 `return class extends (() => {}).constructor {}.prototype`,
	"code from text: indirect":              `return (0, globalThis["ev" + "al"])("1")`,
	"code from text: Reflect":               `return Reflect.construct(Object.getPrototypeOf(Object.getPrototypeOf(async function* () {})).constructor, ["return 1"])()`,
	"the stack of the host":                 `Error.prepareStackTrace = (_, sites) => sites; return typeof new Error("x").stack`,
	"functions of the stack":                `Error.prepareStackTrace = (_, sites) => sites.map(s => s.getFunction()); const o = { toString() { return typeof new Error("x").stack } }; console.log([o].join()); throw o`,
	"a module":                              `return await import("data:text/javascript,export default 1")`,
	"the end of the function":               `}); for (;;); (async () => {`,
	"a wait in shared memory":               `return Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)`,
	"a sparse sort with a changing array":   `const a = Array(1e6).fill(1); a.sort(() => { a.push(1); return Math.random() - 0.5 })`,
	"string iterators":                      `let s = "😀".repeat(1e6); for (;;) [...s]`,
	"normalization":                         `return "\u1e9b\u0323".repeat(1e7).normalize("NFKD").length`,
	"dates":                                 `for (;;) new Date(2 ** 53).toString()`,
	"numbers":                               `for (;;) (1.1).toFixed(100)`,
	"labels":                                `a: for (;;) { b: for (;;) { continue a } }`,
}

// manyNames returns names of variables, with commas.
func manyNames(n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint("v", i)
	}
	return strings.Join(names, ",")
}

// TestHostileScripts: each is stopped, gets nothing, and neither the process nor the next script is affected. It runs in a
// process of its own, whose memory is measured.
func TestHostileScripts(t *testing.T) {
	racetest.Skip(t)
	if os.Getenv("DOVETAIL_HOSTILE") != "" {
		runHostile(t)
		return
	}
	child := exec.Command(os.Args[0], "-test.run=^TestHostileScripts$", "-test.v")
	child.Env = append(os.Environ(), "DOVETAIL_HOSTILE=1", "GOGC=25") // little garbage, which would be measured too
	out, err := child.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

// largestMemory returns how much memory the process has had, in KiB. The usage that the parent gets includes memory of the parent.
func largestMemory(t *testing.T) (size int) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the memory of a process is measured on Linux")
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &size); err == nil {
			return size
		}
	}
	t.Fatalf("/proc/self/status has no VmHWM:\n%s", status)
	return 0
}

func runHostile(t *testing.T) {
	const computing = 100 * time.Millisecond
	l := &ledger{}
	session := connect(t, newTools(l).Provider(), &code.Options{Limits: code.Limits{Computing: computing}}, &servertest.Options{Client: client.Options{CallTimeout: time.Minute}})
	next := connect(t, newTools(l).Provider(), nil, nil) // it has the same engine
	for name, script := range hostile {
		begun := time.Now()
		r, err := tryRun(context.Background(), session, script)
		took := time.Since(begun)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if took > computing+30*time.Second { // on an idle machine, 2 s: the time of a busy one says little
			t.Errorf("%s: stopped after %v", name, took)
		}
		t.Logf("%-40s %6d ms  %.100s %.100q", name, took.Milliseconds(), r.Value, r.Error)
		if after := run(t, next, `return [1, 2].map(x => x * 2)`); string(after.Value) != "[2,4]" {
			t.Errorf("after %s: %s %s", name, after.Value, after.Error)
		}
	}
	const limit = 64 << 10 // KiB
	if size := largestMemory(t); size > 4*limit {
		t.Errorf("the process had %d KiB of memory, more than 4 times the %d KiB of a script", size, limit)
	} else {
		t.Logf("%d KiB", size)
	}
}
