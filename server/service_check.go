package server

import (
	"fmt"
	"reflect"
)

// What a service says of all its methods.
type (
	withAnnotations  interface{ Annotations() Annotations }
	withDescriptions interface{ Descriptions() Descriptions }
)

// checkService refuses a type some of whose methods would be passed over without a
// word: guards that are left out are worse than a service that does not start.
func checkService(t reflect.Type) error {
	if t.Kind() != reflect.Pointer {
		for method := range reflect.PointerTo(t).Methods() {
			if _, ok := t.MethodByName(method.Name); !ok && takesContext(method.Type) {
				return needsPointer(t, method.Name)
			}
		}
	}
	if err := checkCommon(t, reflect.TypeFor[withAnnotations]()); err != nil {
		return err
	}
	return checkCommon(t, reflect.TypeFor[withDescriptions]())
}

// checkCommon looks for a method that was meant to be the one of an interface.
func checkCommon(t, common reflect.Type) error {
	if t.Implements(common) {
		return nil
	}
	wanted := common.Method(0)
	if t.Kind() != reflect.Pointer && reflect.PointerTo(t).Implements(common) {
		return needsPointer(t, wanted.Name)
	}
	if method, ok := t.MethodByName(wanted.Name); ok && gives(method.Type, wanted.Type.Out(0)) {
		return fmt.Errorf("its method %s must be func() %v", wanted.Name, wanted.Type.Out(0))
	}
	for _, embedded := range embeddedIn(t) {
		if embedded.Implements(common) || reflect.PointerTo(embedded).Implements(common) {
			return fmt.Errorf("the method %s of the embedded %v is not promoted, since it is not the only one: the service needs its own", wanted.Name, embedded)
		}
	}
	return nil
}

func needsPointer(t reflect.Type, method string) error {
	return fmt.Errorf("its method %s has a pointer receiver: register a *%v", method, t)
}

// gives reports whether a method gives a value of the type, or something like it.
func gives(method, wanted reflect.Type) bool {
	for out := range method.Outs() {
		if out.Kind() == reflect.Pointer {
			out = out.Elem()
		}
		if out == wanted || wanted.Kind() == reflect.Map && out.Kind() == reflect.Map && out.ConvertibleTo(wanted) {
			return true
		}
	}
	return false
}

// embeddedIn are the types of all embedded fields.
func embeddedIn(t reflect.Type) []reflect.Type {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	var types []reflect.Type
	for _, field := range reflect.VisibleFields(t) {
		if field.Anonymous {
			types = append(types, field.Type)
		}
	}
	return types
}
