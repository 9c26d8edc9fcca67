package uritemplate_test

import (
	"fmt"

	"github.com/dovetail-go/dovetail/internal/uritemplate"
)

func ExampleParse() {
	template, err := uritemplate.Parse("file:///logs/{day}{?level,tags*}")
	if err != nil {
		panic(err)
	}
	uri, err := template.Expand(map[string]uritemplate.Value{
		"day":  uritemplate.String("28 July"),
		"tags": uritemplate.List("disk", "net"),
	})
	fmt.Println(uri, err)

	_, err = uritemplate.Parse("file:///logs/{a day}")
	fmt.Println(err)
	// Output:
	// file:///logs/28%20July?tags=disk&tags=net <nil>
	// URI template: "{a day}": unacceptable variable name: {a_
}

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

func ExampleMap() {
	template, err := uritemplate.Parse("/search{?filter*}")
	if err != nil {
		panic(err)
	}
	uri, err := template.Expand(map[string]uritemplate.Value{
		"filter": uritemplate.Map(map[string]string{"lang": "go", "stars": ">100"}),
	})
	fmt.Println(uri, err)
	// Output: /search?lang=go&stars=%3E100 <nil>
}
