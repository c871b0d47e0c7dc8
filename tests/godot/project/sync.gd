# The Godot RL Agents protocol, version 0.7, in GDScript 3: what the plugin's Sync node does in Godot 4.
extends Node

var stream = StreamPeerTCP.new()
var agents = []
var action_repeat = 1
var frames = 0
var connected = false
var owes = ""


func _ready():
	var args = {}
	for argument in OS.get_cmdline_args():
		var parts = argument.split("=")
		if parts.size() == 2:
			args[parts[0].lstrip("-")] = parts[1]
	seed(int(args.get("env_seed", "1")))
	action_repeat = int(args.get("action_repeat", "1"))
	var speed_up = float(args.get("speedup", "1"))
	Engine.iterations_per_second = int(60 * speed_up)
	Engine.time_scale = speed_up
	agents = get_tree().get_nodes_in_group("AGENT")
	for agent in agents:
		agent.reset()
	stream.connect_to_host("127.0.0.1", int(args.get("port", "11008")))
	while stream.get_status() == StreamPeerTCP.STATUS_CONNECTING:
		OS.delay_msec(1)
	if stream.get_status() != StreamPeerTCP.STATUS_CONNECTED:
		print("no trainer listens")
		get_tree().quit()
		return
	stream.set_no_delay(true)
	if receive()["type"] == "handshake" and receive()["type"] == "env_info":
		introduce()
		connected = true


func introduce():
	var observations = []
	var actions = []
	var names = []
	for agent in agents:
		observations.append(agent.get_obs_space())
		actions.append(agent.get_action_space())
		names.append(agent.policy_name)
	send({
		"type": "env_info",
		"observation_space": observations,
		"action_space": actions,
		"n_agents": len(agents),
		"agent_policy_names": names,
	})


func _physics_process(_delta):
	if not connected:
		return
	if owes == "step":
		for agent in agents:
			agent.step()
	frames += 1
	if frames % action_repeat != 0:
		return
	if owes != "":
		answer()
	obey(receive())


func answer():
	var message = {"type": owes, "obs": [], "info": []}
	for agent in agents:
		message["obs"].append(agent.get_obs())
		message["info"].append({})
	if owes == "step":
		message["reward"] = []
		message["done"] = []
		for agent in agents:
			message["reward"].append(agent.reward)
			message["done"].append(agent.done)
			agent.reward = 0.0
			agent.done = false
	owes = ""
	send(message)


func obey(message):
	if message == null or message["type"] == "close":
		connected = false
		get_tree().quit()
	elif message["type"] == "reset":
		for agent in agents:
			agent.reset()
		owes = "reset"
	elif message["type"] == "action":
		for i in range(len(agents)):
			agents[i].set_action(message["action"][i])
		owes = "step"


func send(message):
	stream.put_string(JSON.print(message))


# The trainer's next message; null once it has gone.
func receive():
	while stream.get_available_bytes() == 0:
		if stream.get_status() != StreamPeerTCP.STATUS_CONNECTED:
			return null
		OS.delay_usec(10)
	return JSON.parse(stream.get_string()).result
