package uritemplate_test

import (
	"fmt"

	"github.com/dovetail-go/dovetail/internal/uritemplate"
)

func ExampleTemplate_Matcher() {
	template, err := uritemplate.Parse("file:///{+path}{?line}")
	if err != nil {
		panic(err)
	}
	m, err := template.Matcher()
	if err != nil {
		panic(err)
	}
	found, ok := m.Match("file:///src/main%20file.go?line=7")
	for _, v := range found {
		fmt.Printf("%s = %q\n", v.Name, v.Value)
	}
	fmt.Println(ok)
	// Output:
	// path = "src/main file.go"
	// line = "7"
	// true
}

func ExampleTemplate_Matcher_refused() {
	template, err := uritemplate.Parse("file:///{folder}{name}")
	if err != nil {
		panic(err)
	}
	_, err = template.Matcher()
	fmt.Println(err)
	// Output: URI template: "{name}": there must be text between variables "folder" and "name"
}
