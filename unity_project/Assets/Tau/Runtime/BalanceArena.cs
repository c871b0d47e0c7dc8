using UnityEngine;

namespace Tau
{
    /// <summary>A platform with a ball on it, made of primitives.</summary>
    [AddComponentMenu("Tau/Balance Arena")]
    [DisallowMultipleComponent]
    public sealed class BalanceArena : MonoBehaviour
    {
        private const float PlatformSize = 5f;
        private const float BallHeight = 4f;

        [SerializeField]
        [Tooltip("The agent of this arena; made when the game starts if there is none.")]
        private BalanceAgent _agent = null;

        /// <summary>The agent of this arena; null before <see cref="Build"/>.</summary>
        public BalanceAgent Agent => _agent;

        /// <summary>A new arena under <paramref name="parent"/>; works in play mode and in edit mode.</summary>
        /// <param name="parent">Its parent in the scene.</param>
        /// <param name="name">Name of its game object.</param>
        /// <param name="position">The platform's centre, relative to the parent.</param>
        public static BalanceArena Create(Transform parent, string name, Vector3 position)
        {
            var host = new GameObject(name);
            host.transform.SetParent(parent, false);
            host.transform.localPosition = position;
            var arena = host.AddComponent<BalanceArena>();
            arena.Build();
            return arena;
        }

        /// <summary>Makes platform, ball and agent, once.</summary>
        public void Build()
        {
            if (_agent != null)
            {
                return;
            }
            BalanceBall ball = MakeBall();
            GameObject platform = MakePart(PrimitiveType.Cube, "Platform", Vector3.zero, PlatformSize);
            platform.SetActive(false); // until it is complete: ML-Agents reads the specification when the agent wakes
            platform.AddComponent<Rigidbody>().isKinematic = true;
            _agent = BalanceAgent.Create(platform, ball);
            platform.SetActive(true);
        }

        private void Start()
        {
            Build();
            _agent.enabled = true;
        }

        private BalanceBall MakeBall()
        {
            GameObject ball = MakePart(PrimitiveType.Sphere, "Ball", new Vector3(0f, BallHeight, 0f), 1f);
            ball.AddComponent<Rigidbody>().useGravity = false;
            return ball.AddComponent<BalanceBall>();
        }

        private GameObject MakePart(PrimitiveType shape, string name, Vector3 position, float size)
        {
            GameObject part = GameObject.CreatePrimitive(shape);
            part.name = name;
            part.transform.SetParent(transform, false);
            part.transform.localPosition = position;
            part.transform.localScale = new Vector3(size, size, size);
            return part;
        }
    }
}
