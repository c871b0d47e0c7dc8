using Unity.MLAgents;
using Unity.MLAgents.Actuators;
using Unity.MLAgents.Policies;
using Unity.MLAgents.Sensors;
using UnityEngine;

namespace Tau
{
    /// <summary>
    /// Tilts its platform about two axes so that the ball stays on it. The game, its numbers and the behavior name are
    /// those of ML-Agents' 3DBall example, so its settings and models fit.
    /// </summary>
    /// <remarks>
    /// Observation, 8 floats: the platform's quaternion components z and x, the ball's position relative to the
    /// platform's centre (3, in m), the ball's velocity (3, in m/s). Actions: tilt about z, tilt about x, in [-1, 1].
    /// Reward: 0.1 per decision; -1 and the end when the ball is lost. Environment parameters, read in every episode:
    /// <c>mass</c> (kg), <c>scale</c> (of the ball), <c>gravity</c> (m/s², positive).
    /// </remarks>
    [AddComponentMenu("Tau/Balance Agent")]
    [DisallowMultipleComponent]
    public sealed class BalanceAgent : Agent
    {
        /// <summary>Name of the behavior, which a trainer's settings must use.</summary>
        public const string BehaviorName = "3DBall";

        private const int Observations = 8;
        private const int Actions = 2;
        private const int StepsPerDecision = 5;
        private const int StepsPerEpisode = 5000;
        private const float TiltDegrees = 2f;
        private const float TiltLimit = 0.25f;
        private const float StartTilt = 10f;
        private const float StartOffset = 1.5f;
        private const float StartHeight = 4f;
        private const float LostDepth = 2f;
        private const float LostDistance = 3f;

        [SerializeField]
        [Tooltip("The ball that must not fall.")]
        private BalanceBall _ball = null;

        /// <summary>Makes <paramref name="platform"/> an agent that balances <paramref name="ball"/>.</summary>
        /// <param name="platform">Must not be active while the game runs: ML-Agents reads its settings when it becomes
        /// active.</param> <param name="ball">Its ball.</param> <returns>The agent, disabled: its arena enables it when
        /// the game starts.</returns>
        public static BalanceAgent Create(GameObject platform, BalanceBall ball)
        {
            var behavior = platform.AddComponent<BehaviorParameters>();
            behavior.BehaviorName = BehaviorName;
            behavior.TeamId = 0;
            behavior.BrainParameters.VectorObservationSize = Observations;
            behavior.BrainParameters.NumStackedVectorObservations = 1;
            behavior.BrainParameters.ActionSpec = ActionSpec.MakeContinuous(Actions);
            var agent = platform.AddComponent<BalanceAgent>();
            agent.enabled = false;
            agent._ball = ball;
            agent.MaxStep = StepsPerEpisode;
            var requester = platform.AddComponent<DecisionRequester>();
            requester.DecisionPeriod = StepsPerDecision;
            requester.TakeActionsBetweenDecisions = true;
            return agent;
        }

        /// <summary>Tilts the platform and places the ball at random; the ball drops onto the platform.</summary>
        public override void OnEpisodeBegin()
        {
            transform.rotation = Quaternion.identity;
            transform.Rotate(Vector3.right, Random.Range(-StartTilt, StartTilt));
            transform.Rotate(Vector3.forward, Random.Range(-StartTilt, StartTilt));
            var offset = new Vector3(
                Random.Range(-StartOffset, StartOffset), StartHeight, Random.Range(-StartOffset, StartOffset));
            EnvironmentParameters parameters = Academy.Instance.EnvironmentParameters;
            _ball.Place(
                transform.position + offset,
                parameters.GetWithDefault("mass", 1f),
                parameters.GetWithDefault("scale", 1f),
                parameters.GetWithDefault("gravity", BalanceBall.DefaultGravity));
        }

        /// <summary>See the class's text.</summary>
        public override void CollectObservations(VectorSensor sensor)
        {
            sensor.AddObservation(transform.rotation.z);
            sensor.AddObservation(transform.rotation.x);
            sensor.AddObservation(_ball.transform.position - transform.position);
            sensor.AddObservation(_ball.Velocity);
        }

        /// <summary>Tilts the platform in every physics step, by the last decision.</summary>
        public override void OnActionReceived(ActionBuffers actions)
        {
            ActionSegment<float> action = actions.ContinuousActions;
            Tilt(Vector3.forward, transform.rotation.z, action[0]);
            Tilt(Vector3.right, transform.rotation.x, action[1]);
            if (IsLost())
            {
                SetReward(-1f);
                EndEpisode();
            }
            else
            {
                SetReward(0.1f);
            }
        }

        /// <summary>Acts if there is neither a trainer nor a model: tilts against the ball's movement.</summary>
        public override void Heuristic(in ActionBuffers actionsOut)
        {
            ActionSegment<float> action = actionsOut.ContinuousActions;
            Vector3 way = _ball.transform.position - transform.position + _ball.Velocity;
            action[0] = Mathf.Clamp(0.2f * way.x - 4f * transform.rotation.z, -1f, 1f);
            action[1] = Mathf.Clamp(-0.2f * way.z - 4f * transform.rotation.x, -1f, 1f);
        }

        private void Tilt(Vector3 axis, float tilt, float action)
        {
            float degrees = TiltDegrees * Mathf.Clamp(action, -1f, 1f);
            if ((degrees > 0f && tilt < TiltLimit) || (degrees < 0f && tilt > -TiltLimit))
            {
                transform.Rotate(axis, degrees);
            }
        }

        private bool IsLost()
        {
            Vector3 place = _ball.transform.position - transform.position;
            return place.y < -LostDepth || Mathf.Abs(place.x) > LostDistance || Mathf.Abs(place.z) > LostDistance;
        }
    }
}
