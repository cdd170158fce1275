-- Slurm's burst_buffer/lua: each function hands one moment of a job's life to bbflow-slurm, whose last line says what went wrong.
-- Lies beside slurm.conf, which has BurstBufferType=burst_buffer/lua. Say here where the program and the site's file are:
local PROGRAM = "/opt/bbflow/bin/bbflow-slurm"
local CONFIG = "/etc/slurm/bbflow.yml"

local function quoted(word)
  return "'" .. tostring(word):gsub("'", "'\\''") .. "'"
end

local function run(...)
  local command = quoted(PROGRAM) .. " --config " .. quoted(CONFIG)
  for _, word in ipairs({...}) do
    command = command .. " " .. quoted(word)
  end
  -- Lua 5.1 doesn't tell how a program ended: the shell does, in a last line
  local pipe = io.popen(command .. " 2>&1; echo $?", "r")
  local said, code = pipe:read("*a"):match("^(.-)%s*(%d+)%s*$")
  pipe:close()
  if code == "0" then
    return slurm.SUCCESS, said
  end
  slurm.log_error("burst_buffer.lua: %s", said)
  return slurm.ERROR, said
end

function slurm_bb_pools()
  return run("pools")
end

function slurm_bb_job_process(job_script, uid, gid)
  if uid == nil then -- Slurm 22.05 doesn't tell: what the user may read is seen when files are staged in
    return run("check", job_script)
  end
  return run("check", job_script, "--uid", uid, "--gid", gid)
end

function slurm_bb_setup(job_id, uid, gid, pool, bb_size, job_script)
  return run("setup", job_id, "--uid", uid, "--gid", gid, "--bytes", string.format("%d", bb_size or 0))
end

function slurm_bb_data_in(job_id, job_script)
  return run("stage-in", job_id, job_script)
end

function slurm_bb_test_data_in()
  return slurm.SUCCESS
end

function slurm_bb_real_size()
  return slurm.SUCCESS
end

function slurm_bb_paths(job_id, job_script, path_file)
  return run("paths", job_id, path_file)
end

function slurm_bb_pre_run(job_id)
  return run("hosts-begin", job_id)
end

function slurm_bb_post_run(job_id)
  return run("hosts-end", job_id)
end

function slurm_bb_data_out(job_id, job_script)
  return run("stage-out", job_id, job_script)
end

function slurm_bb_test_data_out()
  return slurm.SUCCESS
end

function slurm_bb_job_teardown(job_id)
  return run("teardown", job_id)
end

function slurm_bb_get_status()
  return run("pools")
end
