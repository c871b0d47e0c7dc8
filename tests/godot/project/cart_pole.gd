# A pole on a cart (Barto, Sutton and Anderson 1983; the numbers of Gymnasium's CartPole-v1), one step per frame.
# It starts again by itself as soon as it falls, leaves the track or has stood for 500 steps.
extends Node

const LIMIT = 500
const TAU_S = 0.02

var policy_name = "CartPole"
var state = [0.0, 0.0, 0.0, 0.0]
var push = 0
var steps = 0
var reward = 0.0
var done = false


func _ready():
	add_to_group("AGENT")


func reset():
	steps = 0
	for i in range(4):
		state[i] = rand_range(-0.05, 0.05)


func get_obs_space():
	return {"obs": {"size": [4], "space": "box"}}


func get_action_space():
	return {"push": {"size": 2, "action_type": "discrete"}}


func get_obs():
	return {"obs": state}


func set_action(action):
	push = int(action["push"])


func step():
	var force = 10.0 if push == 1 else -10.0
	var angle = state[2]
	var part = (force + 0.05 * state[3] * state[3] * sin(angle)) / 1.1
	var turning = (9.8 * sin(angle) - cos(angle) * part) / (0.5 * (4.0 / 3.0 - 0.1 * cos(angle) * cos(angle) / 1.1))
	var moving = part - 0.05 * turning * cos(angle) / 1.1
	state[0] += TAU_S * state[1]
	state[1] += TAU_S * moving
	state[2] += TAU_S * state[3]
	state[3] += TAU_S * turning
	steps += 1
	reward += 1.0
	if abs(state[0]) > 2.4 or abs(state[2]) > 0.2095 or steps >= LIMIT:
		done = true
		reset()
