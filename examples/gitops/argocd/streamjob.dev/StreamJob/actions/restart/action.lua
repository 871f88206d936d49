if obj.spec.restart == nil then
  obj.spec.restart = {}
end
obj.spec.restart.nonce = (obj.spec.restart.nonce or 0) + 1
return obj
