package jsonrpc_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/jsonrpc"
)

const call100B = `{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{"name":"echo","arguments":{"message":"hi"}}}`

const prose = "The quick brown fox jumps over the lazy dog, and the dog does not mind at all. "

// callOf returns a call whose arguments have a text of about size bytes.
func callOf(size int) []byte {
	text := strings.Repeat(prose, size/len(prose)+1)[:size]
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{"name":"echo","arguments":{"message":"%s"}}}`, text)
}

// callOfRecords returns a call whose arguments have n small objects.
func callOfRecords(n int) []byte {
	var b bytes.Buffer
	b.WriteString(`{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{"name":"store","arguments":{"records":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"id":%d,"name":"record %d","price":%d.5,"tags":["a","b"],"active":true,"note":null}`, i, i, i)
	}
	b.WriteString(`]}}}`)
	return b.Bytes()
}

func BenchmarkDecodeCall100B(b *testing.B) { benchmarkDecode(b, []byte(call100B)) }
func BenchmarkDecodeCall10KB(b *testing.B) { benchmarkDecode(b, callOf(10_000)) }
func BenchmarkDecodeCall1MB(b *testing.B)  { benchmarkDecode(b, callOf(1_000_000)) }
func BenchmarkDecodeRecords(b *testing.B)  { benchmarkDecode(b, callOfRecords(1000)) }
func BenchmarkDecodeManyKeys(b *testing.B) { benchmarkDecode(b, callOfKeys(60_000)) }
func BenchmarkDecodeSomeKeys(b *testing.B) { benchmarkDecode(b, callOfKeys(6_000)) }
func BenchmarkDecodeResponse(b *testing.B) {
	benchmarkDecode(b, []byte(`{"jsonrpc":"2.0","id":17,"result":{"content":[{"type":"text","text":"hi"}],"isError":false}}`))
}

// callOfKeys returns a call whose arguments have n members.
func callOfKeys(n int) []byte {
	var b bytes.Buffer
	b.WriteString(`{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{"arguments":{`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"key%06d":0`, i)
	}
	b.WriteString(`}}}`)
	return b.Bytes()
}

func benchmarkDecode(b *testing.B, data []byte) {
	b.ReportAllocs()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := jsonrpc.Decode(data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMember(b *testing.B) {
	m, err := jsonrpc.Decode([]byte(call100B))
	if err != nil {
		b.Fatal(err)
	}
	req := m.(*jsonrpc.Request)
	b.ReportAllocs()
	for b.Loop() {
		if req.Member("arguments", "message") == nil {
			b.Fatal("not found")
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	m, err := jsonrpc.Decode([]byte(call100B))
	if err != nil {
		b.Fatal(err)
	}
	buf := make([]byte, 0, 256)
	b.ReportAllocs()
	for b.Loop() {
		if buf, err = jsonrpc.Append(buf[:0], m); err != nil {
			b.Fatal(err)
		}
	}
}
