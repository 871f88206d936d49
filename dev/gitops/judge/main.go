// Command judge says what Argo CD and Flux would say of objects.
//
//	judge status         kstatus, the library with which Flux waits for an object
//	judge health FILE    Argo CD's health check FILE, a script in Lua
//	judge script FILE    what a script of Argo CD's returns: the table of a discovery or an action
//
// Standard input has one object in JSON per line, standard output one answer per line. Scripts run as in
// Argo CD (util/lua/lua.go there): gopher-lua with the libraries base, package and table, for one second at
// most, with the object as the global `obj`.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	luajson "layeh.com/gopher-json"
)

const (
	timeLimit = time.Second
	longest   = 16 << 20 // bytes of an object
)

var libraries = map[string]lua.LGFunction{
	lua.LoadLibName: lua.OpenPackage,
	lua.BaseLibName: lua.OpenBase,
	lua.TabLibName:  lua.OpenTable,
}

// The health statuses that Argo CD accepts from a script.
var statuses = map[string]bool{
	"Unknown": true, "Progressing": true, "Healthy": true, "Suspended": true, "Degraded": true, "Missing": true,
}

type answer struct {
	Status  string `json:"status"`
	Message string `json:"message"`
}

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "judge:", err)
		os.Exit(1)
	}
}

func run(args []string, in io.Reader, out io.Writer) error {
	judge, err := chosen(args)
	if err != nil {
		return err
	}
	answers := json.NewEncoder(out)
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, longest)
	for lines.Scan() {
		// Unlike encoding/json, this decoder keeps integers: kstatus wants metadata.generation as one.
		obj := &unstructured.Unstructured{}
		if err := obj.UnmarshalJSON(lines.Bytes()); err != nil {
			return err
		}
		found, err := judge(obj)
		if err != nil {
			return err
		}
		if err := answers.Encode(found); err != nil {
			return err
		}
	}
	return lines.Err()
}

func chosen(args []string) (func(*unstructured.Unstructured) (any, error), error) {
	if len(args) == 1 && args[0] == "status" {
		return flux, nil
	}
	if len(args) != 2 {
		return nil, fmt.Errorf("usage: judge status | judge health FILE | judge script FILE")
	}
	script, err := os.ReadFile(args[1])
	if err != nil {
		return nil, err
	}
	switch args[0] {
	case "health":
		return func(obj *unstructured.Unstructured) (any, error) { return health(obj, string(script)) }, nil
	case "script":
		return func(obj *unstructured.Unstructured) (any, error) {
			encoded, err := result(obj, string(script))
			return json.RawMessage(encoded), err
		}, nil
	}
	return nil, fmt.Errorf("unknown command %q", args[0])
}

func flux(obj *unstructured.Unstructured) (any, error) {
	found, err := kstatus.Compute(obj)
	if err != nil {
		return nil, err
	}
	return answer{string(found.Status), found.Message}, nil
}

func health(obj *unstructured.Unstructured, script string) (any, error) {
	if obj.GetDeletionTimestamp() != nil { // Argo CD does not ask the script then
		return answer{"Progressing", "Pending deletion"}, nil
	}
	encoded, err := result(obj, script)
	if err != nil {
		return nil, err
	}
	var found answer
	if err := json.Unmarshal(encoded, &found); err != nil {
		return nil, err
	}
	if !statuses[found.Status] {
		return nil, fmt.Errorf("Argo CD refuses the health status %q", found.Status)
	}
	return found, nil
}

// result runs the script and returns the table that it returns, in JSON.
func result(obj *unstructured.Unstructured, script string) ([]byte, error) {
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for name, open := range libraries {
		call := lua.P{Fn: state.NewFunction(open), NRet: 0, Protect: true}
		if err := state.CallByParam(call, lua.LString(name)); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeLimit)
	defer cancel()
	state.SetContext(ctx)
	state.SetGlobal("obj", value(state, obj.Object))
	if err := state.DoString(script); err != nil {
		return nil, err
	}
	returned := state.Get(-1)
	if returned.Type() != lua.LTTable {
		return nil, fmt.Errorf("expect table output from Lua script, not %s", returned.Type())
	}
	return luajson.Encode(returned)
}

func value(state *lua.LState, v any) lua.LValue {
	switch v := v.(type) {
	case bool:
		return lua.LBool(v)
	case float64:
		return lua.LNumber(v)
	case int64:
		return lua.LNumber(v)
	case string:
		return lua.LString(v)
	case []any:
		list := state.CreateTable(len(v), 0)
		for _, item := range v {
			list.Append(value(state, item))
		}
		return list
	case map[string]any:
		table := state.CreateTable(0, len(v))
		for key, item := range v {
			table.RawSetH(lua.LString(key), value(state, item))
		}
		return table
	}
	return lua.LNil
}
