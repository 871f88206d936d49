// One binary for everything a node and its control plane run. The name it is called by (a symbolic link, as
// busybox does it) or else its first argument says which program it is. One binary, because the programs share
// nearly all of their code: six of them linked apart take six times the disk and the link time.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	_ "time/tzdata" // CronJobs may name a time zone

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // kubectl: credential plugins
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func run(command *cobra.Command) { os.Exit(cli.Run(command)) }

var programs = map[string]func(){
	"certs":                   certs,
	"etcd":                    func() { etcdmain.Main(os.Args) },
	"kube-apiserver":          func() { run(apiserver.NewAPIServerCommand()) },
	"kube-controller-manager": func() { run(controllers.NewControllerManagerCommand()) },
	"kube-scheduler":          func() { run(scheduler.NewSchedulerCommand()) },
	// The kubelet sets up its own signal context. A second one closes a closed channel.
	"kubelet":    func() { run(kubelet.NewKubeletCommand(context.Background())) },
	"kube-proxy": func() { run(proxy.NewProxyCommand()) },
	"kubectl":    func() { util.CheckErr(cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand())) },
}

func main() {
	if program, found := programs[filepath.Base(os.Args[0])]; found {
		program()
		return
	}
	if len(os.Args) > 1 {
		if program, found := programs[os.Args[1]]; found {
			os.Args = os.Args[1:]
			program()
			return
		}
	}
	fmt.Fprintln(os.Stderr, "call this binary by the name of a program, or with that name as its first argument:")
	for name := range programs {
		fmt.Fprintln(os.Stderr, "  "+name)
	}
	os.Exit(2)
}
