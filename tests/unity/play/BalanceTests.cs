using System.Linq;
using Tau.Core.Tests;
using Unity.MLAgents;
using UnityEngine;

namespace Tau.Play
{
    /// <summary>The game of the balanced ball.</summary>
    public sealed class BalanceTests
    {
        [Test]
        public void TwelveArenasDecideEveryFifthStepAndActInEveryOne()
        {
            Stage stage = Stage.WithTrainer(0f, 0f);
            TauSceneBuilder.Build(SceneKind.Balance);
            stage.Play(10);
            AgentMessage[] asked = stage.Trainer.Said.Where(message => !message.Done).ToArray();
            Assert.Equal(24, asked.Length);
            Assert.True(asked.All(message => message.Of("VectorSensor_size8").Length == 8));
            Assert.Equal(0.1f, asked[12].Reward, "a decision's reward");
            stage.AssertQuiet();
        }

        [Test]
        public void ATiltLosesTheBallWhichCostsOneAndEndsTheEpisode()
        {
            Stage stage = Stage.WithTrainer(1f, 1f);
            TauSceneBuilder.Build(SceneKind.Balance, 1);
            stage.PlayUntil(() => stage.Trainer.Ends.Any());
            AgentMessage end = stage.Trainer.Ends.First();
            Assert.Equal(-1f, end.Reward);
            Assert.True(!end.Interrupted, "a lost ball was reported as a cut");
            stage.AssertQuiet();
        }

        [Test]
        public void ThePlatformTiltsWithTheActionAndNotBeyondItsLimit()
        {
            Stage stage = Stage.WithTrainer(1f, 0f);
            TauSceneBuilder.Build(SceneKind.Balance, 1);
            Transform platform = World.All().Single(each => each.name == "Platform").transform;
            stage.Play();
            float before = platform.rotation.z;
            stage.Play(5);
            Assert.True(platform.rotation.z > before + 0.05f, "it does not tilt");
            stage.Play(9);
            Assert.True(platform.rotation.z < 0.28f, "it tilts too far");
        }

        [Test]
        public void AnEpisodeFollowsTheTrainersMassScaleAndGravity()
        {
            Stage stage = Stage.WithTrainer(0f, 0f);
            stage.Trainer.Send("mass", 3f);
            stage.Trainer.Send("scale", 0.5f);
            stage.Trainer.Send("gravity", 4f);
            TauSceneBuilder.Build(SceneKind.Balance, 1);
            stage.Play();
            Rigidbody ball = World.All().Single(each => each.name == "Ball").GetComponent<Rigidbody>();
            float speed = ball.linearVelocity.y;
            stage.Play();
            Assert.Equal(3f, ball.mass);
            Assert.Equal(0.5f, ball.transform.localScale.x);
            Assert.Equal(-4.0 * 0.02, ball.linearVelocity.y - speed, 1e-6, "pull in one step");
            Assert.True(!ball.useGravity, "pulled twice");
        }

        [Test]
        public void WithoutATrainerAgentsLeanAgainstTheBallsWay()
        {
            var stage = new Stage();
            TauSceneBuilder.Build(SceneKind.Balance, 2);
            stage.Play(60);
            Assert.Equal(2, World.Live<BalanceAgent>().Length);
            stage.AssertQuiet();
        }
    }
}
