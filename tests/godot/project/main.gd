# Eight cart-poles before Sync in the tree, so that each frame moves them first.
extends Node

const CartPole = preload("res://cart_pole.gd")


func _enter_tree():
	for i in range(8):
		var agent = CartPole.new()
		agent.name = "CartPole%d" % i
		add_child(agent)
		move_child(agent, i)
