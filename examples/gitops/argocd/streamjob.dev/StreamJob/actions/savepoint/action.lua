-- A live savepoint: the job keeps running.
if obj.spec.savepoint == nil then
  obj.spec.savepoint = {}
end
obj.spec.savepoint.nonce = (obj.spec.savepoint.nonce or 0) + 1
return obj
