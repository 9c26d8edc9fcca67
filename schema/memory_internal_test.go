package schema

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/test/racetest"
)

// live returns the bytes of what fn returns: the least of three measurements, since the runtime
// and what ends late of earlier tests allocate too.
func live(fn func() any) int64 {
	least := int64(math.MaxInt64)
	for range 3 {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		kept := fn()
		runtime.GC()
		runtime.ReadMemStats(&after)
		runtime.KeepAlive(kept)
		least = min(least, int64(after.HeapAlloc)-int64(before.HeapAlloc))
	}
	return least
}

// The memory of an instance, and of its errors, is at most what is estimated from its bytes, and not
// much less for the shapes that take the most.
func TestMemoryEstimates(t *testing.T) {
	const size, slack = 1 << 15, 16 << 10 // slack: what the runtime allocates meanwhile
	list := func(item string) string {
		return "[" + strings.Repeat(item+",", size/(len(item)+1)) + item + "]"
	}
	record := `{"id":9007199254740993,"name":"Ada Lovelace","tags":["maths","engines"],"address":{"street":"St James's Square","city":"London"}}`
	for name, instance := range map[string]string{
		"numbers":       list("0"),
		"strings":       list(`""`),
		"escapes":       list(`"\n"`),
		"literals":      list("true"),
		"arrays":        list("[]"),
		"nested arrays": list("[[[[0]]]]"),
		"objects":       list("{}"),
		"one member":    list(`{"":0}`),
		"nine members":  list(`{"a":0,"b":0,"c":0,"d":0,"e":0,"f":0,"g":0,"h":0,"i":0}`),
		"records":       list(record),
		"one text":      `"` + strings.Repeat("x", size) + `"`,
	} {
		t.Run(name, func(t *testing.T) {
			text := []byte(instance)
			m, err := measure(text)
			if err != nil {
				t.Fatal(err)
			}
			used := live(func() any { return decodeAny(text) })
			t.Logf("decoded: %d bytes, estimated %d", used, m.decoded)
			if used > m.decoded+slack {
				t.Errorf("the decoded instance takes %d bytes, estimated %d", used, m.decoded)
			}
			for _, schema := range []string{
				`{"items":{"allOf":[{"type":"null"}]}}`,
				`{"items":{"anyOf":[{"type":"null"},{"required":["x"],"properties":{"x":{}}},{"items":{"type":"null"}}],"not":{}}}`,
				`{"items":{"$ref":"#/$defs/a","minimum":1,"minProperties":10,"minLength":10},"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/c"},"c":{"enum":["x","y"]}}}`,
				`{"items":{"additionalProperties":false,"propertyNames":{"minLength":5},"oneOf":[{"minItems":5},{"type":"integer"}]}}`,
			} {
				v, err := CompileGeneral([]byte(schema))
				if err != nil {
					t.Fatal(err)
				}
				e := estimate{graph: v.general.graph, meter: meter{limit: 1 << 62}, s: jsonscan.New(text)}
				if err := e.instance(len(text)); err != nil {
					t.Fatal(err)
				}
				value := decodeAny(text)
				described := live(func() any { return v.general.schema.Validate(value) })
				runtime.KeepAlive(value)
				t.Logf("errors: %d bytes, estimated %.0f and %.0f", described, errorSize*e.errors, verdictSize*e.worst)
				if float64(described) > errorSize*e.errors+slack {
					t.Errorf("the errors take %d bytes, estimated %.0f", described, errorSize*e.errors)
				}
			}
		})
	}
}

// peakHeap calls fn and returns how much the heap grows at most. The garbage collector runs often
// meanwhile, so that the heap has little garbage.
func peakHeap(fn func()) int64 {
	defer debug.SetGCPercent(debug.SetGCPercent(50))
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	before, largest := m.HeapAlloc, m.HeapAlloc
	ended, peak := make(chan struct{}), make(chan uint64)
	go func() {
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			largest = max(largest, m.HeapAlloc)
			select {
			case <-ended:
				peak <- largest
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	fn()
	close(ended)
	return int64(<-peak - before)
}

// Many large instances at a time, for several validators with one Memory, use a limited part of the
// heap. Without the limit each instance of the first kind uses more than 16 MiB. Under the race
// detector, there are fewer instances, and they are smaller.
func TestManyLargeInstances(t *testing.T) {
	count, size, limit := 6, 512<<10, int64(12<<20)
	if racetest.Enabled {
		count, size, limit = 4, size/2, limit/2
	}
	list := func(item string) []byte {
		return []byte("[" + strings.Repeat(item+",", size/(len(item)+1)-1) + item + "]")
	}
	repeated := func(n int, format string) string {
		var text strings.Builder
		for i := range n {
			fmt.Fprintf(&text, format, i)
		}
		return strings.TrimSuffix(text.String(), ",")
	}
	members := func(n int) string { return repeated(n, `"p%d":1,`) }
	required := func(n int) string { return repeated(n, `"p%d",`) }
	names := bytes.NewBufferString("[")
	for i := range 8 {
		names.WriteString("{")
		for j := range 8_000 {
			names.WriteString(`"` + string(rune('a'+i)) + strconv.Itoa(j) + `":0,`)
		}
		names.WriteString(`"":0},`)
	}
	names.WriteString("0]")
	for name, test := range map[string]struct {
		schema   string
		instance []byte
	}{
		"numbers, general":   {`{"not":{"type":"null"}}`, list("0")},
		"arrays, general":    {`{"not":{"type":"null"}}`, list("[]")},
		"below the limit":    {`{"not":{"type":"null"}}`, list("0")[:size/4]},
		"errors, general":    {`{"items":{"anyOf":[{"type":"string"},{"type":"null"}]}}`, list("0")[:size/16]},
		"unevaluated":        {`{"unevaluatedItems":false,"allOf":[{"allOf":[{"allOf":[{"prefixItems":[true]}]}]}]}`, list("0")[:size/16]},
		"uniqueItems":        {`{"uniqueItems":true}`, list("0.0")},
		"const of an array":  {`{"const":[1]}`, list("1e399")},
		"enum of an object":  {`{"items":{"enum":[{"a":1}]}}`, list(`{"b":1e399}`)},
		"names":              {`{}`, names.Bytes()},
		"pointers":           {`{"additionalProperties":{"items":{"type":"string"}}}`, []byte(`{"` + strings.Repeat("x", size/2) + `":[` + strings.Repeat("0,", 100) + `0]}`)},
		"pointers, general":  {`{"additionalProperties":{"not":{"type":"null"},"additionalProperties":false}}`, []byte(`{"` + strings.Repeat("x", size/2) + `":{` + members(2000) + `}}`)},
		"pointers, missing":  {`{"additionalProperties":{"not":{"type":"null"},"required":[` + required(2000) + `]}}`, []byte(`{"` + strings.Repeat("x", size/2) + `":{}}`)},
		"digits of integers": {`{"items":{"type":"integer"}}`, list("1e399")},
	} {
		t.Run(name, func(t *testing.T) {
			shared := NewMemory(limit)
			if test.instance[len(test.instance)-1] != ']' && test.instance[len(test.instance)-1] != '}' {
				test.instance = append(bytes.TrimRight(bytes.Clone(test.instance), ","), ']')
			}
			var validators []*Validator
			for range 4 {
				v, err := Compile([]byte(test.schema), nil)
				if err != nil {
					t.Fatal(err)
				}
				validators = append(validators, v.WithMemory(shared))
			}
			grown := peakHeap(func() {
				var running sync.WaitGroup
				for i := range count {
					running.Go(func() { _, _ = validators[i%4].prepare(t.Context(), test.instance) })
				}
				running.Wait()
			})
			t.Logf("the heap has grown by %d MiB", grown>>20)
			if grown > 3*limit {
				t.Errorf("the heap has grown by %d MiB", grown>>20)
			}
		})
	}
}

// A validation waits for the memory and the processors that others use, and no longer than its context.
func TestLimitMemory(t *testing.T) {
	reason := errors.New("the caller has left")
	large := []byte("[" + strings.Repeat("0,", 50_000) + "0]")
	for _, text := range []string{`{"not":{"type":"null"}}`, `{"uniqueItems":false,"items":{"type":"integer"}}`} {
		synctest.Test(t, func(t *testing.T) {
			memory := NewMemory(8 << 20)
			v, err := Compile([]byte(text), &CompileOptions{Memory: memory})
			if err != nil {
				t.Fatal(err)
			}
			other := v.WithMemory(memory)
			taken := int64(runtime.GOMAXPROCS(0)) // more than there are
			if !memory.slots.TryAcquire(max(taken-1, 1)) {
				t.Fatal("the slots are in use")
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			first, second := make(chan error, 1), make(chan error, 1)
			go func() { first <- v.Validate(ctx, large) }()
			go func() { second <- other.Validate(t.Context(), large) }()
			synctest.Wait()
			if err := v.Validate(t.Context(), []byte(`[1]`)); err != nil {
				t.Errorf("a small instance: %v", err)
			}
			cancel(reason)
			if err := <-first; !errors.Is(err, reason) {
				t.Errorf("got %v, want the cause of the end of the context", err)
			}
			memory.slots.Release(max(taken-1, 1))
			if err := <-second; err != nil {
				t.Errorf("after the wait: %v", err)
			}
		})
	}
}

// The general validator waits for bytes.
func TestLimitMemoryBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := NewMemory(8 << 20)
		v, err := Compile([]byte(`{"not":{"type":"null"}}`), &CompileOptions{Memory: memory})
		if err != nil {
			t.Fatal(err)
		}
		if !memory.free.TryAcquire(8 << 20) {
			t.Fatal("the memory is in use")
		}
		large := []byte("[" + strings.Repeat("0,", 50_000) + "0]")
		ended := make(chan error, 1)
		go func() { ended <- v.Validate(t.Context(), large) }()
		synctest.Wait()
		select {
		case err := <-ended:
			t.Fatalf("it did not wait: %v", err)
		default:
		}
		memory.free.Release(8 << 20)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if !memory.free.TryAcquire(8<<20) || !memory.slots.TryAcquire(1) {
			t.Error("the validation has not returned its memory")
		}
		memory.free.Release(8 << 20)
		memory.slots.Release(1)
		err = v.Validate(t.Context(), []byte("["+strings.Repeat("0,", 1_000_000)+"0]"))
		if budget, ok := errors.AsType[*BudgetError](err); !ok || !strings.Contains(budget.Reason, "more than 8388608 bytes of memory") {
			t.Errorf("got %v, want a BudgetError", err)
		}
		unlimited := v.WithMemory(NewMemory(-1))
		if err := unlimited.Validate(t.Context(), []byte("["+strings.Repeat("0,", 300_000)+"0]")); err != nil {
			t.Errorf("without a limit: %v", err)
		}
	})
}

// Finding equal items takes memory in proportion to the instance.
func TestLimitMemoryOfEqualItems(t *testing.T) {
	instance := []byte(`["` + strings.Repeat("x", 3<<20) + `"]`)
	for schema, refused := range map[string]bool{`{"type":"array"}`: false, `{"type":"array","uniqueItems":true}`: true} {
		v, err := Compile([]byte(schema), &CompileOptions{Memory: NewMemory(8 << 20)})
		if err != nil {
			t.Fatal(err)
		}
		err = v.Validate(t.Context(), instance)
		if _, ok := errors.AsType[*BudgetError](err); ok != refused || !refused && err != nil {
			t.Errorf("%s: got %v, want a BudgetError: %t", schema, err, refused)
		}
	}
}

// If the errors do not fit into memory, there is one violation for all of them.
func TestUndescribed(t *testing.T) {
	v, err := Compile([]byte(`{"items":{"anyOf":[{"type":"integer"},{"type":"string"}]}}`), &CompileOptions{Memory: NewMemory(8 << 20)})
	if err != nil {
		t.Fatal(err)
	}
	for last, want := range map[string]int{"0": 0, "null": 1} {
		err := v.Validate(t.Context(), []byte("["+strings.Repeat("0,", 14_000)+last+"]"))
		invalid, ok := errors.AsType[*ValidationError](err)
		if ok != (want > 0) || ok && (len(invalid.Violations) != want || invalid.Violations[0].Keyword != "undescribed") {
			t.Errorf("%s: got %v", last, err)
		}
	}
}
