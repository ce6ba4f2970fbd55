package main

import (
	"reflect"
	"runtime"
	"strings"
	"time"

	holdfast "github.com/holdfast/holdfast/crates/client-go"
)

// describe describes this client for the table of names, by reflection. Go cannot list the functions of a package. So an
// option of a lock that no listed function sets appears under the name of its field, which the table does not have.
func describe() (fields, error) {
	client, err := holdfast.New(holdfast.Config{})
	if err != nil {
		return nil, err
	}
	return fields{
		"client_options": clientOptions(client), "lock_options": lockOptions(), "errors": describedErrors(),
		"loss_causes": lossCauses(), "guard_members": guardMembers(), "metrics": metrics(),
	}, nil
}

// clientOptions has the fields of Config. Their defaults are those of a client without options.
func clientOptions(client *holdfast.Client) fields {
	described := fields{}
	config := reflect.ValueOf(client).Elem().FieldByName("config")
	for i := 0; i < config.NumField(); i++ {
		field := config.Type().Field(i)
		described[field.Name] = fields{"type": wordOf(field.Type), "default": defaultOf(config.Field(i))}
	}
	described["Labels"] = fields{"type": "map", "default": fields{}}
	return described
}

// lockOptions calls each option with arguments that are no defaults, and compares the result with a lock without options.
func lockOptions() fields {
	options := []any{
		holdfast.Wait, holdfast.InMode, holdfast.Permits, holdfast.Priority, holdfast.Owner, holdfast.Reentrant, holdfast.QueueMax,
		holdfast.MaxHold, holdfast.MinHold, holdfast.Value, holdfast.ProgressTimeout, holdfast.TTL, holdfast.Shards,
		holdfast.Shard,
	}
	described, set := fields{}, map[string]bool{}
	structure := reflect.TypeOf(holdfast.LockOption(nil)).In(0).Elem()
	for _, option := range options {
		function := reflect.ValueOf(option)
		var arguments []reflect.Value
		for i := 0; i < function.Type().NumIn(); i++ {
			arguments = append(arguments, sample(function.Type().In(i)))
		}
		target := reflect.New(structure)
		function.Call(arguments)[0].Call([]reflect.Value{target})
		for i := 0; i < structure.NumField(); i++ {
			if !target.Elem().Field(i).IsZero() {
				set[structure.Field(i).Name] = true
			}
		}
		name := runtime.FuncForPC(function.Pointer()).Name()
		described[name[strings.LastIndex(name, ".")+1:]] = fields{"type": wordOf(function.Type().In(0)), "default": nil}
	}
	for i := 0; i < structure.NumField(); i++ {
		if name := structure.Field(i).Name; !set[name] {
			described[name] = fields{}
		}
	}
	described["InMode"] = fields{"type": "text", "default": holdfast.Exclusive}
	return described
}

func sample(t reflect.Type) reflect.Value {
	value := reflect.New(t).Elem()
	switch t.Kind() {
	case reflect.String:
		value.SetString("a")
	case reflect.Bool:
		value.SetBool(true)
	default:
		value.SetInt(1)
	}
	return value
}

// wordOf returns the word of the table for a type.
func wordOf(t reflect.Type) string {
	switch {
	case t == reflect.TypeOf(time.Duration(0)):
		return "duration"
	case t == reflect.TypeOf((*holdfast.Metrics)(nil)).Elem():
		return "metrics"
	case t == reflect.TypeOf((*error)(nil)).Elem():
		return "error"
	case t == reflect.TypeOf([]string(nil)):
		return "texts"
	}
	kinds := map[reflect.Kind]string{
		reflect.String: "text", reflect.Int: "integer", reflect.Bool: "flag", reflect.Map: "map", reflect.Pointer: "pointer",
	}
	return kinds[t.Kind()]
}

func defaultOf(value reflect.Value) any {
	switch {
	case value.IsZero():
		return nil
	case value.Type() == reflect.TypeOf(time.Duration(0)):
		return value.Int() / int64(time.Millisecond)
	case value.Kind() == reflect.Slice:
		var texts []string
		for i := 0; i < value.Len(); i++ {
			texts = append(texts, value.Index(i).String())
		}
		return texts
	}
	return value.String()
}

func describedErrors() fields {
	described := fields{}
	for _, err := range []error{
		&holdfast.BusyError{Problem: &holdfast.Problem{}}, &holdfast.LostError{}, &holdfast.UnavailableError{},
		&holdfast.OutcomeUnknownError{}, &holdfast.RejectedError{Problem: &holdfast.Problem{}}, &holdfast.UnexpectedResponseError{},
		&holdfast.InvalidArgumentError{},
	} {
		described[reflect.TypeOf(err).Elem().Name()] = fields{"kind": kindOf(err)}
	}
	return described
}

func lossCauses() fields {
	described := fields{}
	for _, cause := range []holdfast.Cause{
		holdfast.CauseNotRenewed, holdfast.CauseSessionEnded, holdfast.CauseReleasedElsewhere, holdfast.CauseForceReleased,
		holdfast.CauseRevoked, holdfast.CauseTransferred, holdfast.CauseStalled, holdfast.CauseMaxHoldExceeded,
	} {
		described[string(cause)] = fields{}
	}
	return described
}

func guardMembers() fields {
	described := fields{}
	guard := reflect.TypeOf(&holdfast.Guard{})
	for i := 0; i < guard.NumMethod(); i++ {
		described[guard.Method(i).Name] = fields{}
	}
	return described
}

func metrics() fields {
	described := fields{}
	metrics := reflect.TypeOf((*holdfast.Metrics)(nil)).Elem()
	for i := 0; i < metrics.NumMethod(); i++ {
		method := metrics.Method(i)
		words := []string{}
		for i := 0; i < method.Type.NumIn(); i++ {
			words = append(words, wordOf(method.Type.In(i)))
		}
		described[method.Name] = fields{"arguments": words}
	}
	return described
}
