obj.spec.state = "Drained"
return obj
