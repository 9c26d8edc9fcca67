package jsonscan_test

import (
	"fmt"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

func ExampleNew() {
	s := jsonscan.New([]byte(`{"name": "add", "arguments": {"a": 1.0}}`))
	if err := s.EnterObject(); err != nil {
		fmt.Println(err)
		return
	}
	for first := true; ; first = false {
		key, ok, err := s.Member(first)
		if err != nil {
			fmt.Println(err)
			return
		}
		if !ok {
			return
		}
		value, err := s.Value()
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s is %v: %s\n", jsonscan.Unquote(key), jsonscan.KindOf(value), value)
	}
	// Output:
	// name is a string: "add"
	// arguments is an object: {"a": 1.0}
}

func ExampleReadObject() {
	_, err := jsonscan.ReadObject([]byte(`{"name": "safe", "n\u0061me": "unsafe"}`))
	fmt.Println(err)
	// Output: duplicate member "name"
}

func ExampleSplice() {
	text, err := jsonscan.Splice(nil, []byte(`{"name":"math__add", "arguments":{"a":1.0}}`),
		jsonscan.Edit{Name: "name", Value: []byte(`"add"`)})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s\n", text)
	// Output: {"name":"add", "arguments":{"a":1.0}}
}
