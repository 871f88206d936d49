local health_status = {}

local function condition(type)
  for _, found in ipairs(obj.status.conditions or {}) do
    if found.type == type then
      return found
    end
  end
  return {}
end

-- Until the controller has seen the newest generation, its conditions say nothing about that generation.
if obj.status == nil or obj.status.conditions == nil or obj.status.observedGeneration ~= obj.metadata.generation then
  health_status.status = "Progressing"
  health_status.message = "Waiting for the StreamJob controller"
  return health_status
end

local ready = condition("Ready")
local stalled = condition("Stalled")
local degraded = condition("Degraded")
health_status.message = ready.message

-- Nothing moves until a person acts: the job has failed, was rolled back, or cannot be ended as requested.
if stalled.status == "True" then
  health_status.status = "Degraded"
  health_status.message = stalled.reason .. ": " .. stalled.message
  return health_status
end

-- Also while a job with a dead query is stopped or upgraded: that may be what repairs it.
if condition("Reconciling").status == "True" then
  health_status.status = "Progressing"
  return health_status
end

-- A query of the running job is dead. The others keep running.
if degraded.status == "True" then
  health_status.status = "Degraded"
  health_status.message = degraded.reason .. ": " .. degraded.message
  return health_status
end

-- Only spec.suspend: somebody else, such as a queue, decides when the job runs. A job that is Stopped, Drained,
-- Cancelled or Finished is in the state that its spec asks for.
if obj.status.phase == "Suspended" then
  health_status.status = "Suspended"
  return health_status
end

if ready.status == "True" then
  health_status.status = "Healthy"
  return health_status
end

health_status.status = "Progressing"
return health_status
